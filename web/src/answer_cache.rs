//! Answers that simultaneous requests share.
//!
//! Some answers require a pass over all ports of the fabric. One request computes such an answer,
//! and simultaneous requests wait for it. The answer is reused as long as the readings and the
//! snapshot of the subnet stay the same, and at most for a [`PASS`], because a reading can become
//! stale meanwhile.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use axum::body::Bytes;
use parking_lot::Mutex;
use rsm_api::{CountersQueries, Subnet};
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::limits::{MAX_KEPT_BYTES, PASS};

/// The readings and the snapshot to which an answer refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerKey {
    /// The number of the counter readings.
    pass: u64,
    /// The generation of the snapshot.
    generation: u64,
}

impl AnswerKey {
    /// The key of an answer that is computed now.
    pub(crate) fn now(subnet: &dyn Subnet, counters: Option<&dyn CountersQueries>) -> AnswerKey {
        AnswerKey {
            pass: counters.map_or(0, CountersQueries::pass),
            generation: subnet.generation(),
        }
    }
}

/// An answer with its key.
#[derive(Debug)]
struct Made<T> {
    of: AnswerKey,
    /// The time when the work on the answer began.
    at: Instant,
    answer: T,
}

impl<T> Made<T> {
    fn is_valid(&self, now: AnswerKey) -> bool {
        self.of == now && self.at.elapsed() < PASS
    }
}

/// The last answer of one kind.
#[derive(Debug)]
pub(crate) struct CachedAnswer<T>(Arc<tokio::sync::Mutex<Option<Made<T>>>>);

impl<T> Default for CachedAnswer<T> {
    fn default() -> CachedAnswer<T> {
        CachedAnswer(Arc::default())
    }
}

impl<T: Clone + Send + 'static> CachedAnswer<T> {
    /// Returns the last answer if it is still valid; otherwise runs `make` on a separate thread.
    /// The work continues, and its answer is kept, even if the client has gone.
    ///
    /// # Errors
    /// `make` panicked.
    pub(crate) async fn get(
        &self,
        answer_key: impl Fn() -> AnswerKey,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let mut last = Arc::clone(&self.0).lock_owned().await;
        // The key is taken before the work: readings that arrive meanwhile belong to another key.
        let (of, at) = (answer_key(), Instant::now());
        if let Some(made) = last.as_ref().filter(|made| made.is_valid(of)) {
            return Ok(made.answer.clone());
        }
        tokio::task::spawn_blocking(move || {
            let answer = make();
            *last = Some(Made {
                of,
                at,
                answer: answer.clone(),
            });
            answer
        })
        .await
    }
}

/// A large text that is kept until the last answer with this text has been sent.
#[derive(Debug, Clone)]
pub(crate) struct Large(Arc<String>);

impl Large {
    /// The text as a body.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes::from_owner(self.clone())
    }
}

impl AsRef<[u8]> for Large {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The last large texts, by their key. Texts up to [`MAX_KEPT_BYTES`] are kept until their pass is
/// over, larger texts until the last answer with them has been sent.
#[derive(Debug)]
pub(crate) struct SharedTexts<K> {
    texts: Mutex<HashMap<K, Arc<CachedAnswer<Weak<String>>>>>,
}

impl<K> Default for SharedTexts<K> {
    fn default() -> SharedTexts<K> {
        SharedTexts {
            texts: Mutex::default(),
        }
    }
}

impl<K: Copy + Eq + Hash> SharedTexts<K> {
    /// Returns the text of `key`, as [`CachedAnswer::get`] returns an answer. The work on a new
    /// text waits for a permit of `places`.
    ///
    /// # Errors
    /// `make` panicked.
    pub(crate) async fn get(
        &self,
        key: K,
        places: Arc<Semaphore>,
        answer_key: impl Fn() -> AnswerKey,
        make: impl FnOnce() -> String + Send + 'static,
    ) -> Result<Large, JoinError> {
        let cached = self.of(key);
        let mut last = Arc::clone(&cached.0).lock_owned().await;
        let kept = last.as_ref().filter(|made| made.is_valid(answer_key()));
        if let Some(text) = kept.and_then(|made| made.answer.upgrade()) {
            return Ok(Large(text));
        }
        // The permit belongs to the work, which continues even if the client has gone.
        let place = places.acquire_owned().await.ok();
        let (of, at) = (answer_key(), Instant::now());
        let text = tokio::task::spawn_blocking(move || {
            let _place = place;
            let text = Arc::new(make());
            let answer = Arc::downgrade(&text);
            *last = Some(Made { of, at, answer });
            text
        })
        .await?;
        if text.len() <= MAX_KEPT_BYTES {
            let text = Arc::clone(&text);
            tokio::spawn(async move {
                tokio::time::sleep_until(at + PASS).await;
                drop(text);
            });
        }
        Ok(Large(text))
    }

    /// The entry of a text. Removes the entries of dropped texts: there are never more entries than
    /// simultaneous requests and texts of one pass.
    fn of(&self, key: K) -> Arc<CachedAnswer<Weak<String>>> {
        let mut texts = self.texts.lock();
        texts.retain(|_, cached| {
            let is_asked = Arc::strong_count(cached) > 1;
            let last = cached.0.try_lock();
            // A text that is being made is locked.
            let is_there = |last: &Option<Made<Weak<String>>>| {
                last.as_ref()
                    .is_some_and(|made| made.answer.strong_count() > 0)
            };
            is_asked || last.map_or(true, |last| is_there(&last))
        });
        Arc::clone(texts.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const FIRST: AnswerKey = AnswerKey {
        pass: 1,
        generation: 1,
    };

    #[tokio::test(flavor = "multi_thread")]
    async fn requests_of_one_key_share_one_answer() {
        let (cached, made) = (
            Arc::new(CachedAnswer::default()),
            Arc::new(AtomicU64::new(0)),
        );
        let key = Arc::new(Mutex::new(FIRST));
        let ask = || {
            let (cached, made) = (Arc::clone(&cached), Arc::clone(&made));
            let key = Arc::clone(&key);
            tokio::spawn(async move {
                let make = move || made.fetch_add(1, Ordering::Relaxed) + 1;
                cached.get(|| *key.lock(), make).await.unwrap()
            })
        };
        let asked: Vec<_> = (0..16).map(|_| ask()).collect();
        for answer in asked {
            assert_eq!(answer.await.unwrap(), 1);
        }
        key.lock().pass += 1;
        assert_eq!(ask().await.unwrap(), 2, "other readings");
        key.lock().generation += 1;
        assert_eq!(ask().await.unwrap(), 3, "another snapshot");
        assert_eq!(ask().await.unwrap(), 3);
    }

    #[tokio::test]
    async fn answer_is_computed_again_after_a_pass() {
        let cached = CachedAnswer::default();
        assert_eq!(cached.get(|| FIRST, || 1).await.unwrap(), 1);
        assert_eq!(cached.get(|| FIRST, || 2).await.unwrap(), 1);
        tokio::time::sleep(PASS).await;
        assert_eq!(cached.get(|| FIRST, || 3).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn answer_is_kept_even_if_its_client_has_left() {
        let cached = CachedAnswer::default();
        let (begun, begins) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        {
            let asked = cached.get(
                || FIRST,
                move || {
                    begun.send(()).unwrap();
                    ends.recv().unwrap();
                    1
                },
            );
            tokio::pin!(asked);
            assert!(poll_once(asked.as_mut()).await.is_none());
            begins.recv().unwrap();
        }
        end.send(()).unwrap();
        assert_eq!(cached.get(|| FIRST, || 2).await.unwrap(), 1);
    }

    /// Polls a future once.
    async fn poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            let polled = std::pin::Pin::new(&mut future).poll(context);
            std::task::Poll::Ready(match polled {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn texts_are_kept_for_a_pass_and_large_texts_while_they_are_sent() {
        let texts: SharedTexts<u8> = SharedTexts::default();
        let places = || Arc::new(Semaphore::new(1));
        let small = || "small".to_owned();
        drop(texts.get(1, places(), || FIRST, small).await.unwrap());
        let again = texts
            .get(1, places(), || FIRST, || "other".to_owned())
            .await
            .unwrap();
        assert_eq!(again.bytes(), "small");
        let large = || "x".repeat(MAX_KEPT_BYTES + 1);
        let first = texts
            .get(2, places(), || FIRST, large)
            .await
            .unwrap()
            .bytes();
        let other = || "other".to_owned();
        let shared = texts
            .get(2, places(), || FIRST, other)
            .await
            .unwrap()
            .bytes();
        assert_eq!(first, shared);
        drop((first, shared));
        let made = texts.get(2, places(), || FIRST, other).await.unwrap();
        assert_eq!(made.bytes(), "other", "the large one is gone");
        drop((again, made));
        tokio::time::sleep(PASS * 2).await;
        drop(texts.get(3, places(), || FIRST, small).await.unwrap());
        assert_eq!(texts.texts.lock().len(), 1, "places of texts that are gone");
    }
}
