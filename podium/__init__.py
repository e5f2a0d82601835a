"""The program: command line, wiring, HTTP endpoints."""
