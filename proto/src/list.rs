//! Requests for lists; each response is a page.

use prost::Message;

use crate::v1;

/// A request for a page.
pub trait Paged: Message + Default {
    /// The name of the method.
    const METHOD: &'static str;

    /// Takes page size and token out of the request: only the filters of the list remain.
    fn take_page(&mut self) -> (u32, String);

    /// Sets the page: at most `size` items, at the place that `token` encodes.
    fn set_page(&mut self, size: u32, token: String);
}

/// A request for a page of items of one kind.
pub trait List: Paged {
    /// An item of the list.
    type Item;
    /// A page of the list.
    type Response;

    /// A page: its items, the token of the next one, empty on the last, and the generation that
    /// they were taken from.
    fn response(items: Vec<Self::Item>, token: String, generation: u64) -> Self::Response;

    /// The items of a page, and the token of the next one, empty on the last.
    fn page(response: Self::Response) -> (Vec<Self::Item>, String);
}

macro_rules! paged {
    ($method:ident, $request:ident) => {
        impl Paged for v1::$request {
            const METHOD: &'static str = stringify!($method);

            fn take_page(&mut self) -> (u32, String) {
                let size = std::mem::take(&mut self.page_size);
                (size, std::mem::take(&mut self.page_token))
            }

            fn set_page(&mut self, size: u32, token: String) {
                self.page_size = size;
                self.page_token = token;
            }
        }
    };
}

macro_rules! list {
    ($request:ident, $response:ident, $item:ident, $items:ident, $($generation:ident)?) => {
        impl List for v1::$request {
            type Item = v1::$item;
            type Response = v1::$response;

            #[allow(
                clippy::needless_update,
                reason = "some responses have fields beside the page, which their servers fill in"
            )]
            fn response(
                items: Vec<Self::Item>,
                token: String,
                _generation: u64,
            ) -> Self::Response {
                v1::$response {
                    $items: items,
                    next_page_token: token,
                    $($generation: _generation,)?
                    ..Default::default()
                }
            }

            fn page(response: Self::Response) -> (Vec<Self::Item>, String) {
                (response.$items, response.next_page_token)
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/lists.rs"));
