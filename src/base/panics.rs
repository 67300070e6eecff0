//! Panics: a panic ends one piece of work. The resources of that work are released, and other work
//! is not affected. When these functions return, the panic hook has reported the panic.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Returns the result of `work`; `None` when it panics.
pub fn unless_it_panics<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Returns the result of the future `work`; `None` when it panics. The future stays where its
/// caller has pinned it: futures of requests are large, and moving one is expensive.
pub async fn unless_its_future_panics<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(
        |context| match unless_it_panics(|| work.as_mut().poll(context)) {
            Some(polled) => polled.map(Some),
            None => Poll::Ready(None),
        },
    )
    .await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn a_panic_becomes_none_and_a_result_is_passed_through() {
        assert_eq!(unless_it_panics(|| 1), Some(1));
        assert_eq!(unless_it_panics(|| panic!("as it was told to")), None::<u8>);
    }

    #[tokio::test]
    async fn a_future_may_panic_after_it_has_waited() {
        let works = async {
            tokio::task::yield_now().await;
            1
        };
        assert_eq!(unless_its_future_panics(pin!(works)).await, Some(1));
        let panics = async {
            tokio::task::yield_now().await;
            if true {
                panic!("as it was told to")
            }
            1_u8
        };
        assert_eq!(unless_its_future_panics(pin!(panics)).await, None);
    }
}
