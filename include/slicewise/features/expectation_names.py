"""Names and arguments of Great Expectations' expectations, so that a definition is checked where
that library is not installed; a test holds them to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

ALSO = ("row_condition", "condition_parser")
"""Arguments that every expectation takes."""

_TEXT = """
expect_column_distinct_values_to_be_in_set column! value_set!
expect_column_distinct_values_to_contain_set column! value_set!
expect_column_distinct_values_to_equal_set column! value_set!
expect_column_kl_divergence_to_be_less_than column! bucketize_data internal_weight_holdout
    max_value min_value partition_object tail_weight_holdout threshold
expect_column_max_to_be_between column! max_value min_value strict_max strict_min
expect_column_mean_to_be_between column! max_value min_value strict_max strict_min
expect_column_median_to_be_between column! max_value min_value strict_max strict_min
expect_column_min_to_be_between column! max_value min_value strict_max strict_min
expect_column_most_common_value_to_be_in_set column! value_set! ties_okay
expect_column_pair_values_a_to_be_greater_than_b column_A! column_B! ignore_row_if mostly
    or_equal
expect_column_pair_values_to_be_equal column_A! column_B! ignore_row_if mostly
expect_column_pair_values_to_be_in_set column_A! column_B! value_pairs_set! ignore_row_if
    mostly
expect_column_proportion_of_non_null_values_to_be_between column! max_value min_value
    strict_max strict_min
expect_column_proportion_of_unique_values_to_be_between column! max_value min_value
    strict_max strict_min
expect_column_quantile_values_to_be_between column! quantile_ranges! allow_relative_error
expect_column_stdev_to_be_between column! max_value min_value strict_max strict_min
expect_column_sum_to_be_between column! max_value min_value strict_max strict_min
expect_column_to_exist column! column_index
expect_column_type_to_be column! type_!
expect_column_unique_value_count_to_be_between column! max_value min_value strict_max
    strict_min
expect_column_value_lengths_to_be_between column! max_value min_value mostly strict_max
    strict_min
expect_column_value_lengths_to_equal column! value! mostly
expect_column_value_z_scores_to_be_less_than column! threshold! double_sided! mostly
expect_column_values_to_be_between column! max_value min_value mostly strict_max strict_min
expect_column_values_to_be_dateutil_parseable column! mostly
expect_column_values_to_be_decreasing column! mostly strictly
expect_column_values_to_be_in_set column! value_set! mostly
expect_column_values_to_be_in_type_list column! mostly type_list
expect_column_values_to_be_increasing column! mostly strictly
expect_column_values_to_be_json_parseable column! mostly
expect_column_values_to_be_null column! mostly
expect_column_values_to_be_of_type column! type_! mostly
expect_column_values_to_be_unique column! mostly
expect_column_values_to_match_json_schema column! json_schema! mostly
expect_column_values_to_match_like_pattern column! like_pattern! escape mostly
expect_column_values_to_match_like_pattern_list column! like_pattern_list! escape match_on
    mostly
expect_column_values_to_match_regex column! mostly regex
expect_column_values_to_match_regex_list column! regex_list! match_on mostly
expect_column_values_to_match_strftime_format column! strftime_format! mostly
expect_column_values_to_not_be_in_set column! value_set! mostly
expect_column_values_to_not_be_null column! mostly
expect_column_values_to_not_be_outliers column! method mostly multiplier
expect_column_values_to_not_match_like_pattern column! like_pattern! escape mostly
expect_column_values_to_not_match_like_pattern_list column! like_pattern_list! escape mostly
expect_column_values_to_not_match_regex column! regex! mostly
expect_column_values_to_not_match_regex_list column! regex_list! mostly
expect_compound_columns_to_be_unique column_list! ignore_row_if mostly
expect_multicolumn_sum_to_equal column_list! sum_total! ignore_row_if mostly
expect_multicolumn_values_to_be_equal column_list! ignore_row_if mostly
expect_select_column_values_to_be_unique_within_record column_list! ignore_row_if mostly
expect_table_column_count_to_be_between max_value min_value
expect_table_column_count_to_equal value!
expect_table_columns_to_match_ordered_list column_list
expect_table_columns_to_match_set column_set exact_match
expect_table_row_count_to_be_between max_value min_value strict_max strict_min
expect_table_row_count_to_equal value!
unexpected_rows_expectation unexpected_rows_query!
"""
# the name, then its arguments; "!" ends one that may not be left out


def _read(text: str) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """(name, its arguments, those that may not be left out) of each entry."""
    entries: list[list[str]] = []
    for line in text.strip().splitlines():
        if line.startswith(" "):
            entries[-1] += line.split()
        else:
            entries.append(line.split())
    for name, *words in entries:
        needed = tuple(word[:-1] for word in words if word.endswith("!"))
        yield name, tuple(word.removesuffix("!") for word in words), needed


ARGUMENTS: Mapping[str, tuple[str, ...]] = {name: words for name, words, _ in _read(_TEXT)}
"""Expectation -> its arguments."""
NEEDED: Mapping[str, tuple[str, ...]] = {name: needed for name, _, needed in _read(_TEXT)}
"""Expectation -> its arguments that may not be left out."""
