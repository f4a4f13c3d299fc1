package io.slicewise.records;

/** What stands for a value that the schema does not allow. */
enum Refused {
  WRONG_TYPE("wrong_type"),
  OUT_OF_RANGE("out_of_range"),
  BAD_TIME("bad_time"),
  BAD_DATE("bad_date");

  final String reason;

  Refused(String reason) {
    this.reason = reason;
  }
}
