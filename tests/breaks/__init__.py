"""Programs that are split where they can't be captured, compared with eager."""
