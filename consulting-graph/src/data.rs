//! Company data, independent of the source it was read from.
//!
//! Four sources produce a [`Company`]: [`snapshot`] has the filed figures of a few companies, `synthetic` generates a
//! fictional company, [`edgar`] reads SEC filings, and `folder` reads the user's own files. Every number records its
//! origin. Derived figures (`ratio`) are always computed here, never by a model.

mod company;
mod current_report;
pub mod edgar;
pub(crate) mod filing;
pub(crate) mod folder;
mod item;
mod news;
pub(crate) mod number;
mod origin;
pub(crate) mod ratio;
pub(crate) mod ratio_table;
pub(crate) mod render;
mod rng;
pub mod snapshot;
mod source;
mod statement;
pub(crate) mod synthetic;
mod ticker;
pub(crate) mod trend;

pub use company::{Company, Document, Note, Price, SectorRatio, Source, Split, Subject};
pub use current_report::CurrentReport;
pub use item::{Item, Unit};
pub use news::{Competitor, ForumThread, News, NewsItem, PredictionMarket, Rating, Sentiment};
pub use origin::{Fact, Origin};
pub(crate) use rng::SeededRng;
pub use source::{DataError, DataOrigin, DataSource};
pub use statement::{Period, Statement};
pub use ticker::{Ticker, TickerError};
