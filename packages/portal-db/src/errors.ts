/** An error as PostgREST's clients read it: always these four members. */
export interface ErrorBody {
  /** SQLSTATE, or `PGRST…`. */
  readonly code: string;
  readonly message: string;
  readonly details: string | null;
  readonly hint: string | null;
  /** HTTP status; not part of the body. */
  readonly status: number;
}
