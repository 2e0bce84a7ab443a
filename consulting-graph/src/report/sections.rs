//! Builds the content of a report: a first page with the answer, then the evidence, all moves, the debates and an
//! appendix.

mod appendix;
mod debates;
mod evidence;
mod first_page;
mod moves;
mod reliability;
mod scores;

use super::{document::Block, evaluation::Report};

pub(super) fn title(report: &Report) -> String {
    format!(
        "Strategic moves for {} ({})",
        report.outcome.company.name, report.outcome.company.ticker
    )
}

pub(super) fn document(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(1, title(report))];
    blocks.extend(first_page::first_page(report));
    blocks.extend(evidence::evidence(report));
    blocks.extend(moves::all_moves(report));
    blocks.extend(debates::debates(report));
    blocks.extend(appendix::appendix(report));
    blocks
}
