/** An item of a {@link Sieve}. */
export interface SieveItem<T> {
  readonly bytes: number;
  /** Set at each use. */
  isUsed: boolean;
  newer: T | undefined;
  older: T | undefined;
}

/**
 * The order in which items make room (SIEVE: Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024). A use costs one flag, no
 * list is turned over. A hand goes from the oldest item to the newest, spares what was used since it last came by, and takes
 * what was not: answers that are asked for once go first, and a scan does not push out the others.
 */
export class Sieve<T extends SieveItem<T>> {
  #newest: T | undefined;
  #oldest: T | undefined;
  #hand: T | undefined;
  #bytes = 0;
  #count = 0;

  get bytes(): number {
    return this.#bytes;
  }

  get count(): number {
    return this.#count;
  }

  add(item: T): void {
    item.older = this.#newest;
    item.newer = undefined;
    if (this.#newest !== undefined) this.#newest.newer = item;
    this.#newest = item;
    this.#oldest ??= item;
    this.#bytes += item.bytes;
    this.#count++;
  }

  remove(item: T): void {
    const { newer, older } = item;
    if (this.#hand === item) this.#hand = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    item.newer = undefined;
    item.older = undefined;
    this.#bytes -= item.bytes;
    this.#count--;
  }

  /** The item that goes next; undefined when there is none. `isDead` items are not spared. */
  next(isDead: (item: T) => boolean): T | undefined {
    let item = this.#hand ?? this.#oldest;
    while (item?.isUsed === true && !isDead(item)) {
      item.isUsed = false;
      item = item.newer ?? this.#oldest;
    }
    this.#hand = item;
    return item;
  }
}
