// Work that takes long, spread over many tasks, so that the page answers between them.

const FIRST_MS = 24; // what is done before the next picture is drawn: most replies need no more
const FIRST_STEPS = 16; // and these in any case: on a slow machine a short reply is drawn at once as well
const SLICE_MS = 16; // then as much at a time, which nobody feels

/**
 * @typedef {{ step: (batch: number) => boolean | "large", wait?: () => void }} Job
 *   `step` does a little, and gives whether there is more; "large": more of what takes long, so that the time alone
 *   decides how much is done at once. `wait`: the rest of it comes in another task.
 */
/** @type {Job[]} */
const jobs = [];
const channel = new MessageChannel();
let batch = 0; // the number of the task, so that a job can do once in a task what is costly
let isFirst = false; // one of the microtasks that come before the next picture is on its way
let isNext = false; // the same for a slice

/**
 * Do a job, at once and before older ones, or after all others (`isLast`). One that waits already is not added twice.
 *
 * @param {Job} job
 */
export function spread(job, isLast = false) {
  if (!jobs.includes(job)) jobs[isLast ? "unshift" : "push"](job);
  if (isLast) next();
  else if (!isFirst) {
    isFirst = true;
    queueMicrotask(() => {
      isFirst = false;
      run(FIRST_MS, FIRST_STEPS);
    });
  }
}

/**
 * Forget a job.
 *
 * @param {Job} job
 */
export function drop(job) {
  const at = jobs.indexOf(job);
  if (at >= 0) jobs.splice(at, 1);
}

function next() {
  if (isNext || !jobs.length) return;
  isNext = true;
  channel.port2.postMessage(null);
}

channel.port1.onmessage = () => {
  isNext = false;
  run(SLICE_MS);
};

/**
 * @param {number} ms
 * @param {number} least  Steps that are done however long they take.
 */
function run(ms, least = 0) {
  batch++;
  const end = performance.now() + ms;
  for (let done = 0, job = jobs.at(-1); job && (done < least || performance.now() < end); done++, job = jobs.at(-1)) {
    const more = step(job);
    if (more === "large") least = 0;
    if (!more) drop(job);
  }
  for (const job of jobs) job.wait?.();
  next();
}

/**
 * A job that fails is over, and no other one with it.
 *
 * @param {Job} job
 */
function step(job) {
  try {
    return job.step(batch);
  } catch (error) {
    reportError(error);
    return false;
  }
}
