"""The plugin framework: contracts, statuses, cycle state, cluster events, and the runtime of a profile."""
