"""An embedded cluster (API server, controllers, hollow kubelet), loaders for files, and offline simulation."""
