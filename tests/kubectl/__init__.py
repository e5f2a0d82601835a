"""The real kubectl, driven through transcripts: files of commands and of what they print."""
