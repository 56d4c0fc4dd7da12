/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdministrationRequests {
    /// The attribute (IBA 15.2.5); 0, together with method 0, for what subnet administration does not know.
    pub attribute_id: u16,
    /// The attribute's name; `other` for what it does not know.
    pub attribute: String,
    /// The method (IBA 15.2.2).
    pub method_id: u8,
    /// The method's name; `other` for what it does not know.
    pub method: String,
    /// How many were let in since the start.
    pub count: u64,
}

/// Answers of one status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdministrationAnswers {
    /// The status as it is in the header of the answer (IBA 15.2.3); 0xffff for any without a name.
    pub status_id: u16,
    /// Its name; `other` where it has none.
    pub status: String,
    /// How many were given since the start.
    pub count: u64,
}

/// Answers that took about as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyBucket {
    /// They took less than this many nanoseconds, and no less than the bucket before; none for the last one, which has no
    /// bound.
    pub below_ns: Option<u64>,
    /// How many there are.
    pub count: u64,
}

/// How long answers took.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Latencies {
    /// Answers that were measured.
    pub count: u64,
    /// All their times together, in nanoseconds.
    pub sum_ns: u64,
    /// By time, ascending, without those that are empty.
    pub buckets: Vec<LatencyBucket>,
}

/// What subnet administration did since the start. Each number is right by itself; together they are not of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdministrationCounters {
    /// Requests by attribute and method, ascending, without those that never came.
    pub requests: Vec<AdministrationRequests>,
    /// Answers by status, ascending, without those that were never given.
    pub answers: Vec<AdministrationAnswers>,
    /// How long answers took.
    pub latencies: Latencies,
    /// Requests that were told BUSY for want of room.
    pub busy: u64,
    /// What arrived and was dropped without an answer for want of room, and refusals that could not be sent.
    pub dropped: u64,
    /// Answers that could not be sent.
    pub failed: u64,
    /// What needed no answer, or could have none.
    pub ignored: u64,
    /// Requests with an SM_Key that is not the right one, which get no answer.
    pub wrong_keys: u64,
}
