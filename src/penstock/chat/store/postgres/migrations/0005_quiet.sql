-- A connection can be quiet: while the server's queue of notifications is full, no transaction that sends one is committed.
-- Other nodes find what a quiet one did by their polls.

CREATE FUNCTION is_quiet_v1() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('penstock.quiet', true), '') = 'on'
$$;

ALTER FUNCTION notify_v1(text[]) RENAME TO notify_always_v1;

CREATE FUNCTION notify_v1(items text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT is_quiet_v1() THEN
        PERFORM notify_always_v1(items);
    END IF;
END
$$;

-- The queue of the jobs notifies its workers too; without that they find a job by their poll.
DROP TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1 ON procrastinate_jobs;
CREATE TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1
    AFTER INSERT ON procrastinate_jobs
    FOR EACH ROW WHEN (NEW.status = 'todo' AND NOT is_quiet_v1())
    EXECUTE PROCEDURE procrastinate_notify_queue_job_inserted_v1();
