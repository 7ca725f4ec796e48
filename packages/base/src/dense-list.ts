/** Something that one {@link DenseList} at a time can hold. */
export interface DenseListItem {
  /** Its place in the list; the list's own. -1 while it is in none. */
  listIndex: number;
}

/**
 * A set of things that come and go with each request, in no order. A Set of V8 replaces its table after so many deletions,
 * and each former table points to its successor: once one of them is in the old generation, dead or not, all later tables
 * and what was in them survive the collections of the young generation. Here nothing points to what was removed.
 */
export class DenseList<T extends DenseListItem> {
  readonly #items: T[] = [];

  /** How many it holds. */
  get size(): number {
    return this.#items.length;
  }

  /** Adds an item that is in no list. */
  add(item: T): void {
    item.listIndex = this.#items.length;
    this.#items.push(item);
  }

  /** Removes an item; false when it was removed before. */
  remove(item: T): boolean {
    const { listIndex } = item;
    if (this.#items[listIndex] !== item) return false;
    const last = this.#items.pop();
    if (last !== undefined && last !== item) {
      this.#items[listIndex] = last;
      last.listIndex = listIndex;
    }
    item.listIndex = -1;
    return true;
  }

  /** Removes all, and returns them. */
  drain(): readonly T[] {
    const items = this.#items.splice(0);
    for (const item of items) item.listIndex = -1;
    return items;
  }
}
