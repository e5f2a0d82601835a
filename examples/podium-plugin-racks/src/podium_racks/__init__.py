"""Two plugins for podium: GreenPower looks at one node at a time, RackRoom at all of them at once."""
