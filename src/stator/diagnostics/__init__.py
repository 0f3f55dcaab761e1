"""What stator tells its user: reasons, places, errors."""
