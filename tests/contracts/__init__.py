"""Tests of the contracts: that the tables are complete, and that what they claim is true."""
