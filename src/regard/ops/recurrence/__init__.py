"""The nonlinear part of recurrent cells over packed rows, a step at a time and in place, and its derivative."""
