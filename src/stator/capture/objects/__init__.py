"""What the program does with objects: attributes, names, identity, lifetimes."""
