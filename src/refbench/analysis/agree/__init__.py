"""Whether raters agree: judges with judges, judges with people, people with people."""
