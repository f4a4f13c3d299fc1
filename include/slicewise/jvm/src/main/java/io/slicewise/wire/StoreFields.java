package io.slicewise.wire;

/** Keys and fields of the store, which docs/store_fields.py writes from its table. */
public final class StoreFields {
  private StoreFields() {}

  /** `sw:<store id>:{<tag>}:<unit>:hot`: what is not compacted yet; read whole. */
  public static String hotKey(long storeId, String tag, String unit) {
    return "sw:" + storeId + ":{" + tag + "}:" + unit + ":hot";
  }

  /** `sw:<store id>:{<tag>}:<unit>:list`: of an event list: applied offsets and low-water mark. */
  public static String listKey(long storeId, String tag, String unit) {
    return "sw:" + storeId + ":{" + tag + "}:" + unit + ":list";
  }

  /** `sw:<store id>:{<tag>}:<unit>:events`: sorted set: members of the event list. */
  public static String membersKey(long storeId, String tag, String unit) {
    return "sw:" + storeId + ":{" + tag + "}:" + unit + ":events";
  }

  /**
   * `l:<topic>:<partition>`: applied offset: the last offset of this partition that the entity
   * contains.
   */
  public static String applied(String topic, int partition) {
    return "l:" + topic + ":" + partition;
  }

  /**
   * `x:<topic>:<partition>`: `<first>:<last>`, between which offsets pending events of the entity
   * were skipped.
   */
  public static String skipped(String topic, int partition) {
    return "x:" + topic + ":" + partition;
  }

  /** `generation`: store id: the store's time when it was made. */
  public static final String STORE_ID = "generation";

  /** `epoch`: deployment version: counts deployments. */
  public static final String DEPLOYMENT_VERSION = "epoch";

  /** `g:<topic>:<partition>`: committed offset of a partition, absent = 0. */
  public static String committed(String topic, int partition) {
    return "g:" + topic + ":" + partition;
  }
}
