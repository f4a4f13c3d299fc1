package io.slicewise.realtime;

import io.slicewise.wire.Commands;
import io.slicewise.wire.Failure;
import io.slicewise.wire.RedisConnection;
import io.slicewise.wire.Replies;
import io.slicewise.wire.StoreFields;
import java.io.Closeable;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A connection to the one life of the store that the tail was planned for: another incarnation, generation or epoch is
 * refused where it is met.
 */
final class RealtimeNode implements Closeable {
  private final RealtimeSpec spec;
  private final RedisConnection connection;
  private Map<Integer, Long> ledgers;

  private RealtimeNode(RealtimeSpec spec, RedisConnection connection) {
    this.spec = spec;
    this.connection = connection;
  }

  /** IOException where nobody answers; Failure where another life does. */
  static RealtimeNode open(RealtimeSpec spec) throws IOException {
    RealtimeNode node = new RealtimeNode(spec, RedisConnection.open(spec.address, spec.timeoutMs));
    try {
      node.hello();
      return node;
    } catch (IOException | RuntimeException failed) {
      node.close();
      throw failed;
    }
  }

  private void hello() throws IOException {
    Commands commands = new Commands().command("INFO");
    scripts(commands);
    askMarks(commands, spec.partitions);
    List<Object> replies = connection.exchange(commands);
    Map<String, String> info = info(checked(replies.get(0)));
    if (!spec.runId.equals(info.get("run_id")) || !spec.replicationId.equals(info.get("master_replid"))) {
      throw new Failure(
          "the store is in another life than the tail was planned for",
          spec.address + ": run id " + info.get("run_id"),
          "run id " + spec.runId,
          "the tail starts again from the marks by itself");
    }
    replies.forEach(this::checked);
    ledgers = ledgers(replies.get(3), spec.partitions);
  }

  /** Of the partitions that the tail was planned with, when the connection was opened. */
  Map<Integer, Long> ledgers() {
    return ledgers;
  }

  private void scripts(Commands commands) {
    for (RealtimeSpec.Script each : List.of(spec.tail, spec.list)) {
      commands.begin(3).word("SCRIPT").word("LOAD").word(each.text().getBytes(StandardCharsets.UTF_8));
    }
  }

  private static Map<String, String> info(Object raw) {
    Map<String, String> found = new HashMap<>();
    for (String line : new String((byte[]) raw, StandardCharsets.UTF_8).split("\r?\n")) {
      int colon = line.indexOf(':');
      if (colon > 0) {
        found.put(line.substring(0, colon), line.substring(colon + 1));
      }
    }
    return found;
  }

  List<Object> exchange(Commands commands) throws IOException {
    return connection.exchange(commands);
  }

  /** After somebody made the node forget them. */
  void loadScripts() throws IOException {
    Commands commands = new Commands();
    scripts(commands);
    connection.exchange(commands).forEach(this::checked);
  }

  /** Asks the marks: the life, and the ledger of these partitions. */
  void askMarks(Commands commands, Set<Integer> partitions) {
    commands.begin(4 + partitions.size()).word("HMGET").word(spec.marksKey);
    commands.word(StoreFields.STORE_ID).word(StoreFields.DEPLOYMENT_VERSION);
    partitions.forEach(each -> commands.word(spec.ledgerField(each)));
  }

  /** The reply to that: partition to ledger. Failure where the marks are of another life. */
  Map<Integer, Long> ledgers(Object reply, Set<Integer> partitions) {
    List<?> found = (List<?>) checked(reply);
    Long generation = number(found.get(0));
    if (generation == null || generation != spec.generation) {
      throw new Failure(
          "the store was emptied: it has " + (generation == null ? "no marks" : "generation " + generation),
          spec.address.toString(),
          "generation " + spec.generation,
          "the tail starts again from the marks by itself");
    }
    if (spec.epoch != null && !spec.epoch.equals(number(found.get(1)))) {
      throw new Failure(
          "another deployment stands: epoch " + number(found.get(1)),
          spec.address.toString(),
          "epoch " + spec.epoch,
          "the tail starts again with what is deployed by itself");
    }
    Map<Integer, Long> ledgers = new HashMap<>();
    int at = 2;
    for (Integer each : partitions) {
      Long ledger = number(found.get(at++));
      ledgers.put(each, ledger == null ? 0L : ledger);
    }
    return ledgers;
  }

  private static Long number(Object raw) {
    return raw == null ? null : Long.valueOf(new String((byte[]) raw, StandardCharsets.ISO_8859_1));
  }

  /** A reply that is no error. */
  Object checked(Object reply) {
    if (reply instanceof Replies.Failed refused) {
      throw refusal(refused, spec.address.toString());
    }
    return reply;
  }

  static Failure refusal(Replies.Failed refused, String where) {
    return new Failure(
        "the store refuses a command: " + refused.message(),
        where,
        "keys as slicewise writes them, and room for them",
        "see the store's log; the tail starts again from the marks by itself");
  }

  @Override
  public void close() {
    connection.close();
  }
}
