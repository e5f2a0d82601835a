"""Tests of what an operator writes."""
