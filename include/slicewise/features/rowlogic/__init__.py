"""Row logic: the typed tree of an expression, read from text and given to both engines.

Doors: RowExpression, RowFunction, parse_expression.
"""
