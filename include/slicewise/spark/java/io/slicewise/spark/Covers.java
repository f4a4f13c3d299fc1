package io.slicewise.spark;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What archive seqs stand for, as far as they are known: covers of a source only grow with their seq, so that the least
 * seq whose cover holds an event says it of all later ones.
 */
final class Covers {
  static final Covers NONE = new Covers(new long[0], List.of());
  private static final String COUNT = "count";

  private final long[] seqs;
  private final List<Map<?, ?>> offsets;

  private Covers(long[] seqs, List<Map<?, ?>> offsets) {
    this.seqs = seqs;
    this.offsets = offsets;
  }

  /** Of a reply to HGETALL of the source's covers. */
  static Covers of(List<?> flat, String topicId) {
    TreeMap<Long, Map<?, ?>> found = new TreeMap<>();
    for (int i = 0; i < flat.size(); i += 2) {
      String seq = new String((byte[]) flat.get(i), StandardCharsets.ISO_8859_1);
      if (!seq.equals(COUNT)) {
        Map<?, ?> cover = (Map<?, ?>) MessagePack.read((byte[]) flat.get(i + 1));
        Object mine = cover.get(topicId);
        found.put(Long.valueOf(seq), mine == null ? Map.of() : (Map<?, ?>) mine);
      }
    }
    return new Covers(found.keySet().stream().mapToLong(Long::longValue).toArray(), List.copyOf(found.values()));
  }

  /** The newest seq that is known; 0: none. */
  long newest() {
    return seqs.length == 0 ? 0 : seqs[seqs.length - 1];
  }

  /** The least known seq whose cover holds the event; 0: none does. */
  long holding(int partition, long offset) {
    int low = 0;
    int high = seqs.length;
    while (low < high) {
      int middle = (low + high) >>> 1;
      Object end = offsets.get(middle).get((long) partition);
      if (end != null && offset < (Long) end) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low == seqs.length ? 0 : seqs[low];
  }
}
