"""What an operator writes: KubeSchedulerConfiguration, its defaults and validation. Knows nothing of how it is run."""
