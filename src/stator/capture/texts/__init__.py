"""Text that mentions what is not known; output, logging and warnings."""
