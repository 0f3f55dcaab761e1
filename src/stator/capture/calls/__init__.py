"""What happens to a call: which rule a callable has, and how it is carried out."""
