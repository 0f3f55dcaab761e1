"""Programs written to break stator, and the world changed between their calls, against eager."""
