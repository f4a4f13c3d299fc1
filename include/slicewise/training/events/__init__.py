"""Events of a table or an archive become those of one unit, by entity and in the total order.

Doors: Entities, row_logic, UnitEvents.
"""
