/** A value that is mostly here at once. */
export type MaybePromise<T> = T | Promise<T>;

/** Goes on with a value: at once when it is here, since each promise between costs a turn of the microtask queue. */
export function andThen<T, U>(value: MaybePromise<T>, goOn: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return value instanceof Promise ? value.then(goOn) : goOn(value);
}

/** Runs something, and cleans up once: when its result is here, or when it throws or rejects. */
export function withCleanup<T>(run: () => MaybePromise<T>, cleanup: () => void): MaybePromise<T> {
  let result: MaybePromise<T>;
  try {
    result = run();
  } catch (error) {
    cleanup();
    throw error;
  }
  if (!(result instanceof Promise)) {
    cleanup();
    return result;
  }
  return result.then(
    (value) => {
      cleanup();
      return value;
    },
    (error: unknown) => {
      cleanup();
      throw error;
    },
  );
}
