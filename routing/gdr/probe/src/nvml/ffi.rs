//! Binds the functions of NVML that are in use, by hand and at run time.
//!
//! This is the only module here with unsafe code; its exports are safe. A function that an older
//! library lacks returns no data.

#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;

use rsm_gdr::inventory::PciAddress;

use super::NvmlError;

/// The field NVML_FI_DEV_C2C_LINK_COUNT.
pub(super) const C2C_LINK_COUNT: u32 = 170;
/// The field NVML_FI_DEV_C2C_LINK_GET_STATUS; 1 means active.
pub(super) const C2C_LINK_STATUS: u32 = 171;
/// The field NVML_FI_DEV_C2C_LINK_GET_MAX_BW, in MB/s.
pub(super) const C2C_LINK_MAX_MBYTES: u32 = 172;

/// The return code NVML_SUCCESS.
const SUCCESS: c_int = 0;
/// The device type NVML_NVLINK_DEVICE_TYPE_GPU.
const REMOTE_GPU: c_int = 0;
/// The device type NVML_NVLINK_DEVICE_TYPE_SWITCH.
const REMOTE_SWITCH: c_int = 2;
/// The state NVML_GPU_FABRIC_STATE_COMPLETED: the fabric manager has set the GPU up.
const FABRIC_COMPLETED: u8 = 3;
/// The version word of nvmlGpuFabricInfo_v2: the size of the structure, with its version in the
/// highest byte.
const FABRIC_INFO_V2: c_uint = 0x0200_0024;
/// The maximum length in bytes of a text that NVML writes: names and UUIDs have 96 bytes in its
/// second version.
const TEXT_LEN: usize = 96;
/// The number of spare words behind structures that the library fills in: a newer library may have
/// longer structures.
const SPARE_WORDS: usize = 32;

/// NVML's `nvmlDevice_t`.
pub(super) type Device = *mut c_void;

/// NVML's `nvmlPciInfo_t`.
#[repr(C)]
struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
    bus_id: [c_char; 32],
    spare: [c_uint; SPARE_WORDS],
}

/// NVML's `nvmlGpuFabricInfo_v2_t`.
#[repr(C)]
struct FabricInfo {
    version: c_uint,
    cluster: [u8; 16],
    status: c_int,
    clique: c_uint,
    state: u8,
    health: c_uint,
    spare: [c_uint; SPARE_WORDS],
}

/// NVML's `nvmlFieldValue_t`; the value is a union of numbers of up to eight bytes.
#[repr(C)]
struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency_us: i64,
    value_type: c_uint,
    outcome: c_int,
    value: [u32; 2],
}

type Plain = unsafe extern "C" fn() -> c_int;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;
type Count = unsafe extern "C" fn(*mut c_uint) -> c_int;
type ByIndex = unsafe extern "C" fn(c_uint, *mut Device) -> c_int;
type Text = unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int;
type OfPci = unsafe extern "C" fn(Device, *mut PciInfo) -> c_int;
type Capability = unsafe extern "C" fn(Device, *mut c_int, *mut c_int) -> c_int;
type LinkWord = unsafe extern "C" fn(Device, c_uint, *mut c_int) -> c_int;
type LinkPci = unsafe extern "C" fn(Device, c_uint, *mut PciInfo) -> c_int;
type Fabric = unsafe extern "C" fn(Device, *mut FabricInfo) -> c_int;
type Fields = unsafe extern "C" fn(Device, c_int, *mut FieldValue) -> c_int;

/// The library after its initialisation.
pub(super) struct Library {
    /// The loaded library, which is never unloaded: its threads may still run.
    library: ManuallyDrop<libloading::Library>,
}

/// The other end of an NVLink.
pub(super) enum Remote {
    /// An NVSwitch.
    Switch,
    /// A GPU.
    Gpu(PciAddress),
}

impl PciInfo {
    fn empty() -> PciInfo {
        PciInfo {
            bus_id_legacy: [0; 16],
            domain: 0,
            bus: 0,
            device: 0,
            device_id: 0,
            subsystem_id: 0,
            bus_id: [0; 32],
            spare: [0; SPARE_WORDS],
        }
    }

    /// The PCI address: function 0 of the device, because NVML's numbers omit the function.
    fn address(&self) -> Option<PciAddress> {
        let address = PciAddress {
            domain: self.domain,
            bus: u8::try_from(self.bus).ok()?,
            device: u8::try_from(self.device).ok()?,
            function: 0,
        };
        (address.device < 32).then_some(address)
    }
}

impl Library {
    /// Loads the library `name`, and initialises NVML.
    pub(super) fn open(name: &OsStr) -> Result<Library, NvmlError> {
        let failed = |error: libloading::Error| NvmlError::Load(error.to_string());
        // SAFETY: loading runs the library's constructors; the operator, or the system's search
        // path, selects NVIDIA's library.
        let library = unsafe { libloading::Library::new(name) }.map_err(failed)?;
        let library = Library {
            library: ManuallyDrop::new(library),
        };
        // SAFETY: both declarations are NVML's.
        let (init, _) = unsafe {
            (
                library.need::<Plain>(c"nvmlInit_v2")?,
                library.need::<Count>(c"nvmlDeviceGetCount_v2")?,
            )
        };
        // SAFETY: the function takes no arguments.
        let code = unsafe { init() };
        library.checked("nvmlInit", code)?;
        Ok(library)
    }

    /// Looks up a function by name; `None` if the library lacks it.
    ///
    /// # Safety
    /// `F` is the type of a pointer to a function with the library's declaration.
    unsafe fn find<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the caller guarantees the type.
        let symbol = unsafe { self.library.get::<F>(name.to_bytes_with_nul()) };
        symbol.ok().map(|symbol| *symbol)
    }

    /// Looks up a function that every version has; an error if the library lacks it.
    ///
    /// # Safety
    /// `F` is the type of a pointer to a function with the library's declaration.
    unsafe fn need<F: Copy>(&self, name: &CStr) -> Result<F, NvmlError> {
        // SAFETY: the caller guarantees the type.
        let found = unsafe { self.find(name) };
        found.ok_or_else(|| {
            NvmlError::Load(format!("it lacks the function {}", name.to_string_lossy()))
        })
    }

    /// Converts the return code of `call` into a result, with NVML's text of an error.
    fn checked(&self, call: &'static str, code: c_int) -> Result<(), NvmlError> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: the declaration is NVML's; the function returns a constant text, or null.
        let text = unsafe {
            self.find::<ErrorText>(c"nvmlErrorString")
                .map(|error_text| error_text(code))
                .filter(|text| !text.is_null())
                .map(|text| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        Err(NvmlError::Refused {
            call,
            text: super::plain(&text.unwrap_or_default()),
            code,
        })
    }

    /// The number of GPUs.
    pub(super) fn count(&self) -> Result<u32, NvmlError> {
        let mut count = 0;
        // SAFETY: the declaration is NVML's; the function writes one word.
        let code = unsafe { self.need::<Count>(c"nvmlDeviceGetCount_v2")?(&raw mut count) };
        self.checked("nvmlDeviceGetCount", code)?;
        Ok(count)
    }

    /// The handle of the GPU at `index` in the library's order.
    pub(super) fn device(&self, index: u32) -> Result<Device, NvmlError> {
        let mut device: Device = std::ptr::null_mut();
        // SAFETY: the declaration is NVML's; the function writes one pointer.
        let code = unsafe {
            self.need::<ByIndex>(c"nvmlDeviceGetHandleByIndex_v2")?(index, &raw mut device)
        };
        self.checked("nvmlDeviceGetHandleByIndex", code)?;
        Ok(device)
    }

    /// The PCI address of a GPU.
    pub(super) fn pci(&self, device: Device) -> Result<PciAddress, NvmlError> {
        let mut info = PciInfo::empty();
        // SAFETY: the declaration is NVML's; the structure has room for longer versions.
        let code =
            unsafe { self.need::<OfPci>(c"nvmlDeviceGetPciInfo_v3")?(device, &raw mut info) };
        self.checked("nvmlDeviceGetPciInfo", code)?;
        info.address().ok_or_else(|| NvmlError::Refused {
            call: "nvmlDeviceGetPciInfo",
            text: format!("bus {} device {} is no PCI address", info.bus, info.device),
            code,
        })
    }

    pub(super) fn uuid(&self, device: Device) -> Result<String, NvmlError> {
        self.text(device, "nvmlDeviceGetUUID", c"nvmlDeviceGetUUID")
    }

    pub(super) fn name(&self, device: Device) -> Option<String> {
        self.text(device, "nvmlDeviceGetName", c"nvmlDeviceGetName")
            .ok()
    }

    /// The text that the function `name` returns about a GPU; `call` names the function in errors.
    fn text(&self, device: Device, call: &'static str, name: &CStr) -> Result<String, NvmlError> {
        let mut text = [0u8; TEXT_LEN];
        // SAFETY: the declaration is NVML's; the function writes at most the given length.
        let code = unsafe {
            let room = (TEXT_LEN - 1) as c_uint;
            self.need::<Text>(name)?(device, text.as_mut_ptr().cast(), room)
        };
        self.checked(call, code)?;
        // The library cannot overwrite the last byte, which is zero.
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// The compute capability of a GPU: the major number times ten plus the minor number.
    pub(super) fn compute_capability(&self, device: Device) -> Option<u16> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the declaration is NVML's; the function writes two words.
        let code = unsafe {
            let ask = self.find::<Capability>(c"nvmlDeviceGetCudaComputeCapability")?;
            ask(device, &raw mut major, &raw mut minor)
        };
        let number = u16::try_from(major).ok()?.checked_mul(10)?;
        (code == SUCCESS).then_some(number.checked_add(u16::try_from(minor).ok()?)?)
    }

    /// Whether a link is active; `None` if the GPU lacks the link.
    pub(super) fn link_is_active(&self, device: Device, link: u32) -> Option<bool> {
        let mut active = 0;
        // SAFETY: the declaration is NVML's; the function writes one word.
        let code = unsafe {
            self.find::<LinkWord>(c"nvmlDeviceGetNvLinkState")?(device, link, &raw mut active)
        };
        (code == SUCCESS).then_some(active == 1)
    }

    /// The other end of an NVLink; `None` if it is unknown, or neither a GPU nor a switch.
    pub(super) fn link_remote(&self, device: Device, link: u32) -> Option<Remote> {
        let mut kind = -1;
        // SAFETY: the declaration is NVML's; the function writes one word.
        let outcome = unsafe {
            self.find::<LinkWord>(c"nvmlDeviceGetNvLinkRemoteDeviceType")
                .map(|ask| ask(device, link, &raw mut kind))
        };
        // Libraries before 470 lack the function; the address of the other end decides then.
        match (outcome, kind) {
            (Some(SUCCESS), REMOTE_SWITCH) => return Some(Remote::Switch),
            (Some(SUCCESS), REMOTE_GPU) | (None, _) => {}
            _ => return None,
        }
        let mut info = PciInfo::empty();
        // SAFETY: the declaration is NVML's; the structure has room for longer versions.
        let code = unsafe {
            let ask = self.find::<LinkPci>(c"nvmlDeviceGetNvLinkRemotePciInfo_v2")?;
            ask(device, link, &raw mut info)
        };
        let address = info.address().filter(|_| code == SUCCESS);
        address.map(Remote::Gpu)
    }

    /// The cluster UUID and the clique of a GPU that the fabric manager has set up; else `None`.
    pub(super) fn fabric(&self, device: Device) -> Option<([u8; 16], u32)> {
        let mut info = FabricInfo {
            version: FABRIC_INFO_V2,
            cluster: [0; 16],
            status: -1,
            clique: 0,
            state: 0,
            health: 0,
            spare: [0; SPARE_WORDS],
        };
        // SAFETY: the declaration is NVML's; the function writes the structure of the given
        // version.
        let code =
            unsafe { self.find::<Fabric>(c"nvmlDeviceGetGpuFabricInfoV")?(device, &raw mut info) };
        let is_set_up = code == SUCCESS && info.status == SUCCESS && info.state == FABRIC_COMPLETED;
        (is_set_up && info.cluster != [0; 16]).then_some((info.cluster, info.clique))
    }

    /// The value of a field; `scope` is the number of the link.
    pub(super) fn field(&self, device: Device, field: u32, scope: u32) -> Option<u32> {
        let mut value = FieldValue {
            field,
            scope,
            timestamp: 0,
            latency_us: 0,
            value_type: 0,
            outcome: -1,
            value: [0; 2],
        };
        // SAFETY: the declaration is NVML's; the function writes the given number of values.
        let code =
            unsafe { self.find::<Fields>(c"nvmlDeviceGetFieldValues")?(device, 1, &raw mut value) };
        // The low word comes first on the machines that NVML supports.
        (code == SUCCESS && value.outcome == SUCCESS).then_some(value.value[0])
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the declaration is NVML's; the function takes no arguments.
        unsafe {
            if let Some(shutdown) = self.find::<Plain>(c"nvmlShutdown") {
                shutdown();
            }
        }
    }
}
