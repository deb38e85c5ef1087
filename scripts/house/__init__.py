"""House rules of more than one line: references, language, commit subjects."""
