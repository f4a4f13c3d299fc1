package io.slicewise.records;

import java.io.Serializable;
import java.util.HashMap;
import java.util.List;

/**
 * Where the columns stand in a record: a column is at the end of a path of members, and nowhere
 * else.
 */
final class ColumnTree implements Serializable {
  private static final long serialVersionUID = 1L;
  static final int INNER = -1;

  /** Position of the column that stands here; INNER where others stand below. */
  private int column = INNER;

  private final HashMap<String, ColumnTree> members = new HashMap<>();

  /** The record's own place. paths: of each column, the names of members from the record down. */
  static ColumnTree of(List<List<String>> paths) {
    ColumnTree root = new ColumnTree();
    for (int i = 0; i < paths.size(); i++) {
      ColumnTree at = root;
      for (String step : paths.get(i)) {
        at = at.members.computeIfAbsent(step, name -> new ColumnTree());
      }
      at.column = i;
    }
    return root;
  }

  int column() {
    return column;
  }

  /** The place of a member; null where no column stands there or below. */
  ColumnTree member(String name) {
    return members.get(name);
  }

  /** All columns below this place are of a record that has something else than an object here. */
  void refuse(Object[] read) {
    if (column != INNER) {
      read[column] = Refused.WRONG_TYPE;
    }
    members.values().forEach(member -> member.refuse(read));
  }
}
