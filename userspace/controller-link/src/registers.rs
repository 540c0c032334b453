// SPDX-License-Identifier: GPL-2.0-only
//! The register file of the controller (thesis table 3.1) and the trait of
//! whatever reaches one. Offsets are those of gem5-backend/interface/registers.toml.

use std::fmt;

/// Offset of the id register.
pub const ID: u64 = 0x00;
/// Offset of the version register.
pub const VERSION: u64 = 0x08;
/// Offset of the number of hardware ids.
pub const PIDS: u64 = 0x10;
/// Offset of the number of cores.
pub const CORES: u64 = 0x18;
/// Bytes of traffic of each hardware id; a read clears it.
pub const TRAFFIC: u64 = 0x10000;
/// The same, not cleared.
pub const TRAFFIC_PEEK: u64 = 0x20000;
const VTIME_PID: u64 = 0x30000;
const VTIME_CORE: u64 = 0x40000;
const PID_CORE: u64 = 0x48000;
/// Bytes that the registers occupy.
pub const BYTES: usize = 0x50000;

/// What the id register holds.
pub const ID_VALUE: u64 = 0x434d_2d51_4652_4400;
/// The version of the registers that this agent knows.
pub const VERSION_VALUE: u64 = 1;
/// The most hardware ids of a controller, id 0 included.
pub const PIDS_MAX: u32 = 8192;
const CORES_MAX: u64 = 4096;

/// A hardware id: an index of the registers that the thesis calls a PID. 0 is
/// nobody: unattributed traffic, which is always served first.
pub type HwId = u16;

/// Offset of the traffic register of an id.
pub fn traffic(id: HwId) -> u64 {
    TRAFFIC + 8 * u64::from(id)
}

/// Offset of virtualTime_pid, for traffic of devices.
pub fn vtime_pid(id: HwId) -> u64 {
    VTIME_PID + 8 * u64::from(id)
}

/// Offset of virtualTime_coreId.
pub fn vtime_core(core: u32) -> u64 {
    VTIME_CORE + 8 * u64::from(core)
}

/// Offset of pid_coreId.
pub fn pid_core(core: u32) -> u64 {
    PID_CORE + 8 * u64::from(core)
}

/// What a virtual time (ns) is in a register: units of 2^22 ns, which is about
/// one slice (thesis 4.5.3; it prints a left shift, and means this one).
pub fn register_vtime(vtime_ns: u64) -> u64 {
    vtime_ns >> 22
}

/// What is done to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads it; traffic is cleared.
    Read,
    /// Writes it.
    Write,
    /// Reads it without an effect.
    Peek,
}

/// One access of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What is done.
    pub op: Op,
    /// Where (bytes).
    pub offset: u64,
    /// What is written, or was read.
    pub value: u64,
    /// It is known to have been carried out.
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

    /// A read without an effect.
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

/// Synthetic traffic that a server is asked to make for one hardware id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The id, not 0.
    pub id: HwId,
    /// Rate (bytes per second of simulated time); 0: none any more.
    pub bytes_per_s: u64,
    /// Lines that it keeps outstanding, 1 to 128.
    pub lines: u32,
    /// Part of the traffic that is writes (percent).
    pub write_pct: u32,
}

/// Why a controller did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It cannot be reached, or has gone.
    Gone(String),
    /// It did not answer in time.
    Silent,
    /// What it answers is not the protocol or the register file.
    Protocol(String),
    /// It refused an access or an operation.
    Refused(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(why) => f.write_str(why),
            Self::Silent => f.write_str("it does not answer"),
            Self::Protocol(what) => write!(f, "it does not answer as a controller: {what}"),
            Self::Refused(what) => write!(f, "it refused {what}"),
        }
    }
}

impl std::error::Error for Fault {}

/// Something that reaches a controller. Times are picoseconds of the
/// controller's own clock, which may be a simulated one.
pub trait Registers: Send {
    /// Carries out accesses in their order, and fills in what was read. All see
    /// one moment if the controller can do that.
    ///
    /// # Errors
    /// The first fault. Accesses that are marked as done have happened; of the
    /// others nobody knows.
    fn batch(&mut self, accesses: &mut [Access]) -> Result<u64, Fault>;

    /// Lets simulated time go on, if it waits for us.
    ///
    /// # Errors
    /// As for `batch`.
    fn advance(&mut self, by_ps: u64) -> Result<(), Fault> {
        let _ = by_ps;
        Ok(())
    }

    /// Asks for synthetic traffic from now on, in endpoint of earlier demands.
    ///
    /// # Errors
    /// As for `batch`; a controller that is no model refuses.
    fn demand(&mut self, demands: &[Demand]) -> Result<(), Fault> {
        let _ = demands;
        Err(Fault::Refused("to make traffic: it is no model".into()))
    }

    /// Reads one register; traffic is cleared.
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

    /// Reads one register without an effect.
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

/// How large a controller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Hardware ids, id 0 included; 3 to 8192.
    pub pids: u32,
    /// Cores, at least 1.
    pub cores: u32,
}

/// Makes sure that it is a controller, of a version that we know.
///
/// # Errors
/// It is not, or cannot be asked.
pub fn identify(registers: &mut dyn Registers) -> Result<Size, Fault> {
    let nonsense = |what: String| Err(Fault::Protocol(what));
    let id = registers.peek(ID)?;
    if id != ID_VALUE {
        return nonsense(format!("its id register holds {id:#x}, not {ID_VALUE:#x}"));
    }
    let version = registers.peek(VERSION)?;
    if version != VERSION_VALUE {
        return nonsense(format!(
            "its registers are version {version}, and this agent knows {VERSION_VALUE}"
        ));
    }
    let (pids, cores) = (registers.peek(PIDS)?, registers.peek(CORES)?);
    // Nobody, the common id, and one more are the least that makes sense.
    if !(3..=u64::from(PIDS_MAX)).contains(&pids) || !(1..=CORES_MAX).contains(&cores) {
        return nonsense(format!("it has {pids} ids and {cores} cores"));
    }
    Ok(Size {
        pids: pids as u32,
        cores: cores as u32,
    })
}
