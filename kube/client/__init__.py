"""The client: credentials, REST, informers, work queue, leader election, events. Knows nothing of scheduling."""
