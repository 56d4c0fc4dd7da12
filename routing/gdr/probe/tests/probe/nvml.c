/* NVML as far as the probe calls it: two GPUs, four NVLinks each, and C2C. */
#include <string.h>

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_info;

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
} fabric_info;

typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type;
    int outcome;
    union { unsigned word; unsigned long long whole; } value;
} field_value;

#define LOST 15
#define INVALID 2

int nvmlInit_v2(void) { return INIT; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "driver not loaded"; }

int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    if (index == LOST_GPU)
        return LOST;
    *device = (void *)(long)(index + 1);
    return 0;
}

static unsigned bus_of(long device) { return device == 1 ? 0x9b : 0x1b; }

int nvmlDeviceGetPciInfo_v3(void *device, pci_info *info)
{
    memset(info, 0, sizeof *info);
    info->bus = bus_of((long)device);
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned room)
{
    strncpy(text, (long)device == 1 ? "GPU-00000000-0000-4000-8000-000000000001"
                                    : "GPU-00000000-0000-4000-8000-000000000002", room);
    return 0;
}

int nvmlDeviceGetName(void *device, char *text, unsigned room)
{
    strncpy(text, "NVIDIA H100 80GB HBM3", room);
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
    *major = 9;
    *minor = 0;
    return 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active)
{
    if (link >= 5)
        return INVALID;
    *active = link != 4;
    return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *kind)
{
    *kind = REMOTE;
    return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci_info *info)
{
    memset(info, 0, sizeof *info);
    info->bus = bus_of(3 - (long)device);
    return 0;
}

int nvmlDeviceGetGpuFabricInfoV(void *device, fabric_info *info)
{
    if (info->version != 0x02000024 || sizeof *info != 0x24)
        return INVALID;
    memset(info->cluster, 0xab, sizeof info->cluster);
    info->clique = 7;
    info->state = 3;
    info->status = 0;
    return 0;
}

int nvmlDeviceGetFieldValues(void *device, int count, field_value *values)
{
    for (int at = 0; at < count; at++) {
        values[at].outcome = 0;
        values[at].value.whole = 0;
        switch (values[at].field) {
        case 170: values[at].value.word = 2; break;
        case 171: values[at].value.word = 1; break;
        case 172: values[at].value.word = 44712; break;
        default: values[at].outcome = INVALID;
        }
    }
    return 0;
}
