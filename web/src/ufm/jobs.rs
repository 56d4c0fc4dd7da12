//! Jobs: records of the changes that UFM makes in the background, for clients that poll their end.
//!
//! rsm answers such a change only when the hardware holds it, so that a job is complete from the
//! start.

use std::collections::VecDeque;
use std::time::SystemTime;

use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION};
use parking_lot::Mutex;
use rsm_api::access::Grant;
use serde_json::{Value, json};

use super::Refused;
use super::inventory::shown_time;
use crate::limits::MAX_UFM_JOBS;
use crate::reply::{self, Reply};

/// A change that has been made.
struct Job {
    number: u64,
    p_key: u16,
    /// The number of hosts that the change added.
    hosts: usize,
    /// The name of the client.
    by: String,
    /// The time of the change, as UFM writes it.
    at: String,
}

impl Job {
    /// The job as UFM shows it.
    fn shown(&self) -> Value {
        json!({
            "ID": self.number.to_string(),
            "Status": "Completed",
            "Progress": 100,
            "Description": format!("Add hosts to PKey {:#x}", self.p_key),
            "Created": self.at,
            "LastUpdated": self.at,
            "Summary": format!("PKey {:#x} has the ports of {} hosts", self.p_key, self.hosts),
            "RelatedObjects": "",
            "CreatedBy": self.by,
            "Operation": "Add hosts to PKey",
            "Foreground": true,
            "SiteName": null,
        })
    }
}

/// The latest jobs since the start of rsm, at most [`MAX_UFM_JOBS`].
#[derive(Default)]
pub(super) struct Jobs {
    kept: Mutex<LatestJobs>,
}

#[derive(Default)]
struct LatestJobs {
    /// The number of jobs so far, which is the number of the latest job.
    count: u64,
    latest: VecDeque<Job>,
}

impl Jobs {
    /// Records a change that has been made, and answers it with its job.
    pub(super) fn completed(&self, p_key: u16, hosts: usize, by: &str) -> Reply {
        let mut kept = self.kept.lock();
        kept.count += 1;
        let job = Job {
            number: kept.count,
            p_key,
            hosts,
            by: by.to_owned(),
            at: shown_time(unix_ms()),
        };
        let mut reply = reply::json(&job.shown());
        let location = format!("/ufmRest/jobs/{}", job.number);
        if let Ok(location) = HeaderValue::try_from(location) {
            reply.headers_mut().insert(LOCATION, location);
        }
        kept.latest.push_back(job);
        if kept.latest.len() > MAX_UFM_JOBS {
            kept.latest.pop_front();
        }
        reply
    }

    /// The jobs about partitions that `grant` sees, or only the job with the number `of`.
    pub(super) fn shown(&self, grant: &Grant, of: Option<u64>) -> Result<Value, Refused> {
        let kept = self.kept.lock();
        let mut jobs = kept.latest.iter().filter(|job| grant.sees(job.p_key));
        let Some(number) = of else {
            return Ok(jobs.map(Job::shown).collect());
        };
        let found = jobs.find(|job| job.number == number);
        found.map(Job::shown).ok_or_else(|| {
            let text = format!(
                "there is no job {number}: rsm keeps the latest {MAX_UFM_JOBS} since its start, and \
                 shows those about partitions of the client"
            );
            (StatusCode::NOT_FOUND, text)
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "clients see the time of a job")]
fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
