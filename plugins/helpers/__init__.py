"""What several plugins share: exact amounts over nodes, and answers of queueing hints. Only plugins import it."""
