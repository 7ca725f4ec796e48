/** Key under which a client's connections are counted; undefined for all clients that have none. */
export type ClientKey = string | undefined;

interface Waiting<T> {
  items: T[];
  /** Items before this one have left: a long list is not moved for each of them. */
  first: number;
}

export interface ClientQueueOptions<T> {
  /** Order of one client's items, as of `Array.sort`; that of their arrival by default. */
  readonly compare?: (a: T, b: T) => number;
}

const MAX_LEFT = 1_024;

const sizeOf = <T>({ items, first }: Waiting<T>): number => items.length - first;

/**
 * Queue that serves its clients round-robin, so that a client's item waits for one item of each other client, however many these
 * have; and that makes room at the cost of the client that has most.
 */
export class ClientQueue<T> {
  readonly #compare: ((a: T, b: T) => number) | undefined;
  /** Clients with items, the next first. */
  readonly #clients = new Map<ClientKey, Waiting<T>>();
  #size = 0;

  constructor({ compare }: ClientQueueOptions<T> = {}) {
    this.#compare = compare;
  }

  /** Items of all clients. */
  get size(): number {
    return this.#size;
  }

  /** Adds an item behind the client's others, or in its place among them. */
  add(client: ClientKey, item: T): void {
    const waiting = this.#clients.get(client);
    this.#size++;
    if (waiting === undefined) {
      this.#clients.set(client, { items: [item], first: 0 });
      return;
    }
    const { items, first } = waiting;
    const compare = this.#compare;
    let place = items.length;
    while (compare !== undefined && place > first && compare(items[place - 1] as T, item) > 0) place--;
    if (place === items.length) items.push(item);
    else items.splice(place, 0, item);
  }

  /** Returns the next item without removing it. */
  peek(): T | undefined {
    for (const { items, first } of this.#clients.values()) return items[first];
    return undefined;
  }

  /** Removes the next item. */
  take(): T | undefined {
    for (const [client, waiting] of this.#clients) {
      const item = waiting.items[waiting.first++];
      this.#size--;
      if (waiting.first > MAX_LEFT) {
        waiting.items = waiting.items.slice(waiting.first);
        waiting.first = 0;
      }
      const isDone = sizeOf(waiting) === 0;
      if (isDone || this.#clients.size > 1) this.#clients.delete(client);
      if (!isDone) this.#clients.set(client, waiting);
      return item;
    }
    return undefined;
  }

  /** Removes the last item of the client that has most; of clients that have as many, this one's. */
  dropLast(client: ClientKey): T | undefined {
    let largestKey = client;
    let largest = this.#clients.get(client);
    for (const [key, waiting] of this.#clients) {
      if (largest !== undefined && sizeOf(waiting) <= sizeOf(largest)) continue;
      largestKey = key;
      largest = waiting;
    }
    if (largest === undefined) return undefined;
    const item = largest.items.pop();
    this.#size--;
    if (sizeOf(largest) === 0) this.#clients.delete(largestKey);
    return item;
  }

  /** Removes all items. */
  clear(): T[] {
    const items = [...this.#clients.values()].flatMap((waiting) => waiting.items.slice(waiting.first));
    this.#clients.clear();
    this.#size = 0;
    return items;
  }
}
