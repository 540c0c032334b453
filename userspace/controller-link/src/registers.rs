// SPDX-License-Identifier: GPL-2.0-only
//! The controller's registers (thesis table 3.1) and the trait of everything
//! that reaches them. gem5-backend/PROTOCOL.md documents the map.

use std::fmt;

use crate::interface::{identity, limits, offset};

/// The most hardware ids that a controller has, id 0 included.
pub const PIDS_MAX: u32 = limits::PIDS as u32;

/// A hardware id: an index of the registers that the thesis calls a PID.
/// Traffic of id 0 is attributed to no task and is always served first.
pub type HwId = u16;

/// Offset of the traffic register of an id.
pub fn traffic(id: HwId) -> u64 {
    offset::TRAFFIC + 8 * u64::from(id)
}

/// Offset of virtualTime_pid, the virtual time of an id's device traffic.
pub fn vtime_pid(id: HwId) -> u64 {
    offset::VTIME_PID + 8 * u64::from(id)
}

/// Offset of virtualTime_coreId, the virtual time of a core's traffic.
pub fn vtime_core(core: u32) -> u64 {
    offset::VTIME_CORE + 8 * u64::from(core)
}

/// Offset of pid_coreId, the id that a core's traffic is counted for.
pub fn pid_core(core: u32) -> u64 {
    offset::PID_CORE + 8 * u64::from(core)
}

/// An operation on a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads the register; a traffic register is then cleared.
    Read,
    /// Writes the register.
    Write,
    /// Reads the register without clearing it.
    Peek,
}

/// One access to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The operation.
    pub op: Op,
    /// The register's offset (bytes).
    pub offset: u64,
    /// The value to write, or the value that was read.
    pub value: u64,
    /// Whether the controller confirmed the access.
    pub done: bool,
}

impl Access {
    /// A read, which clears a traffic register.
    pub fn read(offset: u64) -> Self {
        Self::new(Op::Read, offset, 0)
    }

    /// A write.
    pub fn write(offset: u64, value: u64) -> Self {
        Self::new(Op::Write, offset, value)
    }

    /// A read that clears nothing.
    pub fn peek(offset: u64) -> Self {
        Self::new(Op::Peek, offset, 0)
    }

    fn new(op: Op, offset: u64, value: u64) -> Self {
        Self {
            op,
            offset,
            value,
            done: false,
        }
    }
}

/// A request for synthetic traffic on behalf of one hardware id (operation
/// `demand` of the protocol).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The hardware id, not 0.
    pub id: HwId,
    /// Rate (bytes per second of simulated time); 0 ends the traffic.
    pub bytes_per_s: u64,
    /// Cache lines that it keeps outstanding, 1 to 128.
    pub outstanding_lines: u32,
    /// Share of writes in the traffic (percent).
    pub write_percent: u32,
}

/// Why an access or an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The controller cannot be reached any more.
    Gone(String),
    /// The controller did not answer in time.
    Silent,
    /// The answer violates the protocol or the register map.
    Protocol(String),
    /// The controller refused an access or an operation.
    Refused(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(why) => f.write_str(why),
            Self::Silent => f.write_str("it does not answer"),
            Self::Protocol(what) => {
                write!(f, "it does not answer like a memory controller: {what}")
            }
            Self::Refused(what) => write!(f, "it refused {what}"),
        }
    }
}

impl std::error::Error for Fault {}

/// Access to a controller. Times are picoseconds of the controller's own clock,
/// which may be simulated.
pub trait Registers: Send {
    /// Carries out accesses in order and fills in what was read. Returns the
    /// controller's time (ps). Over a socket all accesses of a frame happen at
    /// one simulated time.
    ///
    /// # Errors
    /// The first fault. Accesses that are marked as done have happened; the
    /// others may have happened.
    fn batch(&mut self, accesses: &mut [Access]) -> Result<u64, Fault>;

    /// Advances simulated time by `by_ps`, if the controller waits for that.
    ///
    /// # Errors
    /// As for `batch`.
    fn advance(&mut self, by_ps: u64) -> Result<(), Fault> {
        let _ = by_ps;
        Ok(())
    }

    /// Lets the cores label their traffic in these pages of memory (physical
    /// addresses; page n holds the labels of cores 64 n to 64 n + 63). Without pages
    /// the registers alone count again. Returns whether the controller has a mailbox.
    ///
    /// # Errors
    /// As for `batch`.
    fn set_mailbox(&mut self, pages: &[u64]) -> Result<bool, Fault> {
        let _ = pages;
        Ok(false)
    }

    /// Asks for synthetic traffic from now on. A demand replaces the earlier one
    /// of the same id.
    ///
    /// # Errors
    /// As for `batch`. Only a model makes traffic; a real controller refuses.
    fn demand(&mut self, demands: &[Demand]) -> Result<(), Fault> {
        let _ = demands;
        Err(Fault::Refused(
            "synthetic traffic, which only a model makes".into(),
        ))
    }

    /// Reads one register; a traffic register is then cleared.
    ///
    /// # Errors
    /// As for `batch`.
    fn read(&mut self, offset: u64) -> Result<u64, Fault> {
        self.one(Access::read(offset))
    }

    /// Writes one register.
    ///
    /// # Errors
    /// As for `batch`.
    fn write(&mut self, offset: u64, value: u64) -> Result<(), Fault> {
        self.one(Access::write(offset, value)).map(drop)
    }

    /// Reads one register without clearing it.
    ///
    /// # Errors
    /// As for `batch`.
    fn peek(&mut self, offset: u64) -> Result<u64, Fault> {
        self.one(Access::peek(offset))
    }

    /// Carries out one access.
    ///
    /// # Errors
    /// As for `batch`.
    fn one(&mut self, access: Access) -> Result<u64, Fault> {
        let mut accesses = [access];
        self.batch(&mut accesses)?;
        Ok(accesses[0].value)
    }
}

/// How many ids and cores a controller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Hardware ids, id 0 included; 3 to 8192.
    pub pids: u32,
    /// Cores, at least 1.
    pub cores: u32,
}

/// Checks that these are a controller's registers, in the version that the agent
/// knows, and reads how many ids and cores there are.
///
/// # Errors
/// The registers hold something else, or they cannot be read.
pub fn identify(registers: &mut dyn Registers) -> Result<Size, Fault> {
    let protocol = |what: String| Err(Fault::Protocol(what));
    let id = registers.peek(offset::ID)?;
    if id != identity::ID {
        return protocol(format!(
            "its id register holds {id:#x}, not {:#x}",
            identity::ID
        ));
    }
    let version = registers.peek(offset::VERSION)?;
    if version != identity::VERSION {
        return protocol(format!(
            "its registers have version {version}, and this agent knows version {}",
            identity::VERSION
        ));
    }
    let (pids, cores) = (
        registers.peek(offset::PIDS)?,
        registers.peek(offset::CORES)?,
    );
    // Ids 0 and SHARED_ID belong to no single task, so the least is 3.
    if !(3..=u64::from(PIDS_MAX)).contains(&pids) || !(1..=limits::CORES_MAX).contains(&cores) {
        return protocol(format!("its registers name {pids} ids and {cores} cores"));
    }
    Ok(Size {
        pids: pids as u32,
        cores: cores as u32,
    })
}
