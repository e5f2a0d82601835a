"""What a cycle sees: nodes as columns, pods as interned shapes, and the indexes that make both cheap to ask."""
