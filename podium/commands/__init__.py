"""One module a command of the command line: `add_parser(subparsers)` and `run(args) -> exit code`."""
