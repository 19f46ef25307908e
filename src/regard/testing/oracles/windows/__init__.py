"""Which positions a window allows, position by position."""
