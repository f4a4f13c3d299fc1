"""Commands for definitions: init, check, plan, apply, sql."""
