"""Values of an answer as JSON writes them are those of every other text: see
`slicewise.codec.plain`."""

from slicewise.codec.plain import Converter, converter, has_doubles, json_safe

__all__ = ["Converter", "converter", "has_doubles", "json_safe"]
