//! Encodes messages as protocol buffers, with a status of our own for malformed ones.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Protocol buffers. A malformed message is INVALID_ARGUMENT, because the client sent it; tonic's
/// own codec answers INTERNAL, which blames the server.
#[derive(Debug, Clone)]
pub struct Codec<T, U> {
    messages: PhantomData<(T, U)>,
}

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Codec {
            messages: PhantomData,
        }
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = Decoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        Decoder {
            inner: ProstCodec::<T, U>::default().decoder(),
        }
    }
}

/// Decodes messages of one kind.
#[derive(Debug, Clone)]
pub struct Decoder<U> {
    inner: ProstDecoder<U>,
}

impl<U: Message + Default> tonic::codec::Decoder for Decoder<U> {
    type Item = U;
    type Error = Status;

    #[expect(
        clippy::disallowed_methods,
        reason = "clients decode as well; the server's guard adds ErrorInfo"
    )]
    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        self.inner.decode(buf).map_err(|status| {
            Status::invalid_argument(format!("malformed message: {}", status.message()))
        })
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.inner.buffer_settings()
    }
}
