//! Loads a program, and its dynamic loader if it has one, from their files into the guest's memory and builds the
//! initial stack. Reads only the ELF header and the program headers, so that the monitor parses as little as possible.
//! The dynamic loader itself runs in the guest.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt, path::PathBuf};

use rustix::io::Errno;

use super::{
    machine::EntryPoint,
    ram::PAGE,
    space::{Access, AddressSpace, USER},
};

/// Load address of a position-independent program.
const PIE_BASE: u64 = 0x10_0000_0000;

/// Load address of a dynamic loader.
const INTERPRETER_BASE: u64 = 0x40_0000_0000;

/// Address of the end of the stack, which grows towards lower addresses.
const STACK_END: u64 = 0x7f_ffff_f000;

const STACK_SIZE: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error("the guest's program is not an x86-64 executable that can be loaded: {0}")]
    Program(&'static str),
    #[error("cannot read the guest's program: {0}")]
    Read(#[from] io::Error),
    #[error(
        "cannot open the library `{}` of the guest's program: {error}; make it readable for every user, or link the \
         program with `-C target-feature=+crt-static`", path.display()
    )]
    Library { path: PathBuf, error: io::Error },
    #[error(
        "the guest's program does not fit into its memory: {0}; increase the memory limit of the sandbox"
    )]
    Memory(Errno),
}

/// Arguments, environment and random bytes that a program is started with.
#[derive(Clone, Debug)]
pub(super) struct ProgramArgs<'a> {
    /// Arguments of the program, starting with its own name.
    pub(super) args: &'a [String],
    /// Environment variables, as `NAME=value`.
    pub(super) environment: &'a [String],
    /// Unpredictable bytes, which the program can use as a seed.
    pub(super) random: [u8; 16],
}

/// Entry point of a loaded program, and the address at which its heap begins.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) entry: EntryPoint,
    pub(super) heap: u64,
}

/// Returns the path of the program's dynamic loader, or `None` if the program is statically linked.
pub(super) fn interpreter(program: &File) -> Result<Option<Vec<u8>>, LoadError> {
    Ok(parse(&read_head(program)?, PIE_BASE)?.interpreter)
}

/// Maps a program, and its dynamic loader if it has one, into the guest's memory. The pages of the files are read when
/// they are first accessed. A program with a dynamic loader starts in the loader, which then opens the libraries.
pub(super) fn load(
    program: &File,
    interpreter: Option<&File>,
    args: &ProgramArgs<'_>,
    space: &mut AddressSpace,
) -> Result<Loaded, LoadError> {
    let program = load_file(program, PIE_BASE, space)?;
    let interpreter = interpreter.map(|it| load_file(it, INTERPRETER_BASE, space)).transpose()?;
    if interpreter.is_some() != program.interpreter.is_some() {
        return Err(LoadError::Program("it needs a dynamic loader"));
    }
    let stack = build_stack(&program, interpreter.is_some(), args, space);
    let stack = stack.map_err(LoadError::Memory)?;
    let end = program.segments.iter().map(|it| it.memory.end).max().unwrap_or(0);
    Ok(Loaded {
        entry: EntryPoint { address: interpreter.unwrap_or(program).entry, stack },
        heap: end.next_multiple_of(PAGE),
    })
}

/// Maps the segments of a file. A position-independent file is loaded at `base`.
fn load_file(file: &File, base: u64, space: &mut AddressSpace) -> Result<Program, LoadError> {
    let program = parse(&read_head(file)?, base)?;
    let len = file.metadata()?.len();
    if program.segments.iter().any(|it| it.file.end > len) {
        return Err(LoadError::Program("it is truncated"));
    }
    for segment in &program.segments {
        load_segment(file, segment, space)?;
    }
    Ok(program)
}

/// Reads the first page of a file.
fn read_head(file: &File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; file.metadata()?.len().min(PAGE) as usize];
    file.read_exact_at(&mut head, 0)?;
    Ok(head)
}

/// The parts of a program's file that are needed to load the program.
struct Program {
    entry: u64,
    /// Address of the program headers in memory, and their number.
    headers: (u64, u64),
    segments: Vec<Segment>,
    /// Path of the dynamic loader.
    interpreter: Option<Vec<u8>>,
}

struct Segment {
    memory: Range<u64>,
    file: Range<u64>,
    access: Access,
}

/// Parses the first page of a program's file, which contains its headers. `pie_base` is the load address of a
/// position-independent program.
fn parse(file: &[u8], pie_base: u64) -> Result<Program, LoadError> {
    const HEADER: u64 = 56;
    const LOAD: u64 = 1;
    const INTERPRETER: u64 = 3;
    let invalid = LoadError::Program;
    let number = |at: u64, len: usize| -> Result<u64, LoadError> {
        let at = usize::try_from(at).map_err(|_| invalid("it is truncated"))?;
        let bytes = at.checked_add(len).and_then(|end| file.get(at..end));
        let bytes = bytes.ok_or(invalid("it is truncated"))?;
        Ok(bytes.iter().rev().fold(0, |sum, it| sum << 8 | u64::from(*it)))
    };
    if file.get(..6) != Some(b"\x7fELF\x02\x01") || number(18, 2)? != 62 {
        return Err(invalid("it is not a 64-bit x86 ELF file"));
    }
    let base = match number(16, 2)? {
        2 => 0,
        3 => pie_base,
        _ => return Err(invalid("it is not an executable")),
    };
    let (first, count) = (number(32, 8)?, number(56, 2)?);
    if number(54, 2)? != HEADER {
        return Err(invalid("its program headers have an unexpected size"));
    }
    let mut segments: Vec<Segment> = Vec::new();
    let mut headers = 0;
    let mut interpreter = None;
    for at in (0..count).map(|it| first.saturating_add(it * HEADER)) {
        match number(at, 4)? {
            INTERPRETER => {
                let start = number(at.saturating_add(8), 8)?;
                let end = start.saturating_add(number(at.saturating_add(32), 8)?);
                let path =
                    file.get(start as usize..end as usize).and_then(|it| it.strip_suffix(b"\0"));
                let path =
                    path.ok_or(invalid("the path of its dynamic loader is not in its first page"))?;
                interpreter = Some(path.to_vec());
                continue;
            }
            LOAD => {}
            _ => continue,
        }
        let segment = parse_segment(&|offset, len| number(at.saturating_add(offset), len), base)?;
        if segment.file.contains(&first) {
            headers = segment.memory.start + (first - segment.file.start);
        }
        segments.push(segment);
    }
    let entry = base.checked_add(number(24, 8)?).ok_or(invalid("its entry point is invalid"))?;
    Ok(Program { entry, headers: (headers, count), segments, interpreter })
}

type ReadNumber<'a> = &'a dyn Fn(u64, usize) -> Result<u64, LoadError>;

fn parse_segment(number: ReadNumber<'_>, base: u64) -> Result<Segment, LoadError> {
    let access = match number(4, 4)? & 0b111 {
        0 => Access::None,
        0b001 | 0b101 => Access::Execute,
        0b010 | 0b110 => Access::Write,
        0b100 => Access::Read,
        _ => return Err(LoadError::Program("a segment is both writable and executable")),
    };
    let (offset, address) = (number(8, 8)?, number(16, 8)?);
    let (in_file, in_memory) = (number(32, 8)?, number(40, 8)?);
    let build = || {
        let start = base.checked_add(address)?;
        let memory = start..start.checked_add(in_memory).filter(|it| *it <= USER.end)?;
        let file = offset..offset.checked_add(in_file)?;
        (in_file <= in_memory).then_some(Segment { memory, file, access })
    };
    build().ok_or(LoadError::Program("a segment has an invalid address range"))
}

/// Maps a segment as writable, fills it, and then sets the access rights of its pages.
fn load_segment(file: &File, segment: &Segment, space: &mut AddressSpace) -> Result<(), LoadError> {
    let Segment { memory, file: part, access } = segment;
    if memory.is_empty() {
        return Ok(());
    }
    let offset = part.start.checked_sub(memory.start % PAGE).filter(|it| it.is_multiple_of(PAGE));
    let offset = offset.ok_or(LoadError::Program("a segment is not page-aligned"))?;
    let pages = memory.start / PAGE * PAGE..memory.end.next_multiple_of(PAGE);
    if !space.is_free(&pages) {
        return Err(LoadError::Program("its segments overlap"));
    }
    let end = memory.start + (part.end - part.start);
    let file_backed = pages.start..end.next_multiple_of(PAGE);
    if !part.is_empty() {
        space.map_file(&file_backed, file, offset, Access::Write).map_err(LoadError::Memory)?;
        if memory.end > end {
            // Zero the rest of the last page, because whole pages were mapped and include bytes that follow the segment
            // in the file.
            let rest = vec![0; (file_backed.end - end) as usize];
            space.write(end, &rest).map_err(LoadError::Memory)?;
        }
    }
    let empty = if part.is_empty() { pages.clone() } else { file_backed.end..pages.end };
    if !empty.is_empty() {
        space.map(&empty, Access::Write).map_err(LoadError::Memory)?;
    }
    space.protect(&pages, *access).map_err(LoadError::Memory)
}

/// Builds the initial stack as a kernel does, with the arguments, the environment and the auxiliary vector. Returns the
/// stack pointer.
fn build_stack(
    program: &Program,
    has_interpreter: bool,
    args: &ProgramArgs<'_>,
    space: &mut AddressSpace,
) -> Result<u64, Errno> {
    space.map(&(STACK_END - STACK_SIZE..STACK_END), Access::Write)?;
    let mut top = STACK_END;
    let mut push = |bytes: &[u8]| -> Result<u64, Errno> {
        top -= bytes.len() as u64;
        space.write(top, bytes)?;
        Ok(top)
    };
    let random = push(&args.random)?;
    let mut push_all = |texts: &[String]| -> Result<Vec<u64>, Errno> {
        texts.iter().map(|it| push(&[it.as_bytes(), b"\0"].concat())).collect()
    };
    let (arguments, environment) = (push_all(args.args)?, push_all(args.environment)?);
    const NOBODY: u64 = 65_534;
    let auxiliary = [
        (3, program.headers.0),
        (4, 56),
        (5, program.headers.1),
        (6, PAGE),
        (7, if has_interpreter { INTERPRETER_BASE } else { 0 }),
        (9, program.entry),
        (11, NOBODY),
        (12, NOBODY),
        (13, NOBODY),
        (14, NOBODY),
        (17, 100),
        (23, 0),
        (25, random),
        (0, 0),
    ];
    let mut words = vec![arguments.len() as u64];
    words.extend(arguments.into_iter().chain([0]));
    words.extend(environment.into_iter().chain([0]));
    words.extend(auxiliary.iter().flat_map(|(key, value)| [*key, *value]));
    let bytes: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
    let start = (top - bytes.len() as u64) & !15;
    space.write(start, &bytes)?;
    Ok(start)
}
