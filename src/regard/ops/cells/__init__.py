"""The nonlinear part of recurrent cells, a step at a time in buffers of all steps, and its derivative."""
