// Reading again after changes. A change never ends a reading that is under way: where changes come
// faster than answers, as from a fabric that flaps, no reading would ever end.

/** The least time between the end of a reading and the next one, in milliseconds. */
const LEAST = 500;
/** The most, so that what is shown is at most this old, and the time of two readings. */
const MOST = 10_000;
/** The pause after a reading, as a multiple of the time that it took: a page that follows a large
 * fabric keeps the server at work for a third of the time at most. */
const SHARE = 2;

/** Reads what a view shows: at once for the operator, one after the other for changes. */
export class Refresher {
  /** `work` reads with an AbortSignal; `failed` shows its error. */
  constructor(work, failed) {
    this.work = work;
    this.failed = failed;
  }

  /** Something has changed: reads now, or once the present reading and its pause are over. */
  async changed() {
    if (this.reading || this.pause) this.isStale = true;
    else await this.now();
  }

  /** Reads at once, by other `work` if that is given; the present reading is given up. */
  async now(work = this.work) {
    this.stop();
    const reading = this.reading = new AbortController();
    const began = performance.now();
    try {
      await work(reading.signal);
    } catch (error) {
      if (reading.signal.aborted) return;
      this.failed(error);
    }
    if (this.reading !== reading) return;
    this.reading = undefined;
    const pause = Math.min(Math.max(LEAST, (performance.now() - began) * SHARE), MOST);
    this.pause = setTimeout(() => {
      this.pause = undefined;
      if (this.isStale) this.now();
    }, pause);
  }

  /** Gives up the present reading, and reads no more for changes before. */
  stop() {
    this.reading?.abort();
    this.reading = undefined;
    clearTimeout(this.pause);
    this.pause = undefined;
    this.isStale = false;
  }
}
