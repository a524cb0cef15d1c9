/* A libnvidia-ml.so.1 for tests. What it says stands in the file named by FAKE_NVML, read anew at each call: lines of
   `name value`. `fail.FUNCTION code`, `fail.FUNCTION.GPU code`, `hang.FUNCTION 1`, `crash.FUNCTION 1`, `lost GPU+1`, and the
   numbers below. Calls are written to the file named by FAKE_NVML_CALLS. Shapes are those of nvml.h. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIG_BASE 100
typedef struct { int gpu; int mig; } Device; /* mig: -1, or the slice */
static Device devices[16], slices[16][8];
static int up;

static double number(const char *name, double otherwise) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256], key[128];
    double value, found = otherwise;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%127s %lf", key, &value) == 2 && !strcmp(key, name)) found = value;
    if (file) fclose(file);
    return found;
}

static double of_gpu(const char *name, int gpu, double otherwise) {
    char key[128];
    snprintf(key, sizeof key, "%s.%d", name, gpu);
    return number(key, number(name, otherwise));
}

static void words(const char *name, char *into, size_t size, const char *otherwise) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256];
    size_t n = strlen(name);
    snprintf(into, size, "%s", otherwise);
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, n) && line[n] == ' ') { line[strcspn(line, "\n")] = 0; snprintf(into, size, "%s", line + n + 1); }
    if (file) fclose(file);
}

static int enter(const char *function, const Device *device) {
    const char *log = getenv("FAKE_NVML_CALLS");
    char key[128];
    int code;
    if (log) { FILE *file = fopen(log, "a"); if (file) { fprintf(file, "%s %d\n", function, device ? device->gpu : -1); fclose(file); } }
    snprintf(key, sizeof key, "hang.%s", function);
    while (number(key, 0)) usleep(20000);
    usleep((useconds_t)number("slow.us", 0));
    snprintf(key, sizeof key, "crash.%s", function);
    if (number(key, 0)) abort();
    if (device && (int)number("lost", 0) == device->gpu + 1) return 15;
    snprintf(key, sizeof key, "fail.%s", function);
    code = device ? (int)of_gpu(key, device->gpu, 0) : (int)number(key, 0);
    if (code) return code;
    if (!up && strncmp(function, "nvmlInit", 8)) return 1;
    return 0;
}
#define ENTER(device) do { int code_ = enter(__func__, device); if (code_) return code_; } while (0)
#define WHOLE_ONLY(device, code) do { if ((device)->mig >= 0) return code; } while (0)

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    ENTER(NULL);
    up = 1;
    for (int i = 0; i < 16; i++) {
        devices[i] = (Device){i, -1};
        for (int j = 0; j < 8; j++) slices[i][j] = (Device){i, j};
    }
    return 0;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { ENTER(NULL); up = 0; return 0; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the fake"; }
int nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    char told[64];
    ENTER(NULL);
    words("nvml.version", told, sizeof told, "13.610.43");
    snprintf(version, length, "%s", told);
    return 0;
}
int nvmlSystemGetDriverVersion(char *version, unsigned length) { ENTER(NULL); snprintf(version, length, "610.43"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { ENTER(NULL); *count = (unsigned)number("gpus", 1); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    if (index >= (unsigned)number("gpus", 1)) return 2;
    ENTER(&devices[index]);
    *device = &devices[index];
    return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, Device **device) {
    unsigned domain, bus;
    if (sscanf(pci, "%x:%x", &domain, &bus) != 2 || bus < 1 || bus > (unsigned)number("gpus", 1)) return 6;
    ENTER(&devices[bus - 1]);
    *device = &devices[bus - 1];
    return 0;
}
int nvmlDeviceGetName(Device *device, char *name, unsigned length) {
    ENTER(device);
    words("name", name, length, "NVIDIA H100 80GB HBM3");
    if (device->mig >= 0) snprintf(name + strlen(name), length - strlen(name), " MIG 1g.10gb");
    return 0;
}
int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned length) {
    ENTER(device);
    if (device->mig >= 0) snprintf(uuid, length, "MIG-fake-%d-%d", device->gpu, device->mig);
    else snprintf(uuid, length, "GPU-fake-%d", device->gpu);
    return 0;
}
int nvmlDeviceGetMinorNumber(Device *device, unsigned *minor) { ENTER(device); *minor = (unsigned)device->gpu; return 0; }

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char pci[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *device, Pci *info) {
    ENTER(device);
    memset(info, 0, sizeof *info);
    info->bus = (unsigned)device->gpu + 1;
    snprintf(info->pci, sizeof info->pci, "00000000:%02X:00.0", device->gpu + 1);
    return 0;
}
typedef struct { unsigned long long total, free, used; } Memory;
int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    ENTER(device);
    memory->total = (unsigned long long)number("memory.total", 85520809984.0) / (device->mig >= 0 ? 8 : 1);
    memory->used = (unsigned long long)of_gpu("memory.used", device->gpu, 5e9);
    memory->free = memory->total - memory->used;
    return 0;
}
int nvmlDeviceGetMemoryBusWidth(Device *device, unsigned *bits) { ENTER(device); *bits = (unsigned)number("bus", 5120); return 0; }
int nvmlDeviceGetMaxClockInfo(Device *device, unsigned type, unsigned *mhz) {
    ENTER(device);
    *mhz = (unsigned)(type == 2 ? number("memory.mhz", 2619) : 1980);
    return 0;
}
int nvmlDeviceGetClockInfo(Device *device, unsigned type, unsigned *mhz) {
    ENTER(device);
    WHOLE_ONLY(device, 3);
    *mhz = (unsigned)(type == 2 ? 2619 : of_gpu("sm.mhz", device->gpu, 1755));
    return 0;
}
typedef struct { unsigned gpu, memory; } Utilization;
int nvmlDeviceGetUtilizationRates(Device *device, Utilization *rates) {
    ENTER(device);
    if (device->mig >= 0 || number("mig", 0)) return 3;
    rates->gpu = (unsigned)of_gpu("util", device->gpu, 97);
    rates->memory = (unsigned)of_gpu("util.memory", device->gpu, 41);
    return 0;
}
static double since_boot(void) { struct timespec t; clock_gettime(CLOCK_BOOTTIME, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double monotonic(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double wall(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double energy_mj(int gpu) { return of_gpu("energy.mj", gpu, 1e6) + monotonic() * of_gpu("power.mw", gpu, 350000) / 1; }

typedef struct { unsigned id, scope; long long timestamp, latency; unsigned type, code; union { double d; unsigned u; unsigned long long ull; } value; } Field;
int nvmlDeviceGetFieldValues(Device *device, int count, Field *fields) {
    ENTER(device);
    for (int i = 0; i < count; i++) {
        Field *field = &fields[i];
        char key[64];
        int clock = (int)number("stamps", 0);
        snprintf(key, sizeof key, "fail.field.%u", field->id);
        field->code = (unsigned)number(key, 0);
        field->type = 3;
        field->timestamp = (long long)(((clock == 0 ? wall() : clock == 1 ? since_boot() : monotonic()) - number("stale", 0)) * 1e6);
        if (field->id == 83) field->value.ull = (unsigned long long)energy_mj(device->gpu);
        else if (field->id == 186) { field->type = 1; field->value.u = (unsigned)of_gpu("power.mw", device->gpu, 350000); }
        else if (field->id == 197 || field->id == 198) {
            field->type = 1;
            field->value.u = (unsigned)(unsigned long long)fmod(number(field->id == 197 ? "pcie.tx" : "pcie.rx", 1000), 4294967296.0);
        } else field->code = 3;
    }
    return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *mj) { ENTER(device); *mj = (unsigned long long)energy_mj(device->gpu); return 0; }
int nvmlDeviceGetPowerUsage(Device *device, unsigned *mw) { ENTER(device); *mw = (unsigned)of_gpu("power.mw", device->gpu, 350000); return 0; }
typedef struct { unsigned version, sensor; int temperature; } Temperature;
int nvmlDeviceGetTemperatureV(Device *device, Temperature *t) { ENTER(device); WHOLE_ONLY(device, 2); t->temperature = (int)number("temperature", 61); return 0; }
int nvmlDeviceGetTemperature(Device *device, unsigned sensor, unsigned *t) { (void)sensor; ENTER(device); WHOLE_ONLY(device, 2); *t = (unsigned)number("temperature", 61); return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(Device *device, unsigned long long *bits) { ENTER(device); *bits = (unsigned long long)of_gpu("reasons", device->gpu, 0); return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *bits) { ENTER(device); *bits = (unsigned long long)of_gpu("reasons", device->gpu, 0); return 0; }
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *processes) {
    ENTER(device);
    unsigned pid = (unsigned)of_gpu("pid", device->gpu, 0);
    if (!pid) { *count = 0; return 0; }
    if (!processes) { *count = 1; return 7; }
    *count = 1;
    processes[0] = (Process){pid, 5000000000ull, 0, 0};
    return 0;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *device, unsigned *count, Process *processes) { (void)processes; ENTER(device); *count = 0; return 0; }
int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) { ENTER(device); *current = *pending = number("mig", 0) > 0; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) { ENTER(device); *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **slice) {
    ENTER(device);
    if (index % 2 || index / 2 >= (unsigned)number("mig", 0)) return 6; /* holes */
    *slice = &slices[device->gpu][index];
    return 0;
}
int nvmlDeviceGetGpuInstanceId(Device *device, unsigned *instance) { ENTER(device); if (device->mig < 0) return 3; *instance = MIG_BASE + (unsigned)device->mig; return 0; }

typedef struct { double at; int gpu; int instance; } GpmSample;
typedef struct { unsigned version, supported; } GpmSupport;
typedef struct { unsigned id, code; double value; const char *s, *l, *u; } GpmMetric;
typedef struct { unsigned version, count; GpmSample *first, *second; GpmMetric metrics[]; } GpmGet;
int nvmlGpmQueryDeviceSupport(Device *device, GpmSupport *support) {
    ENTER(device);
    WHOLE_ONLY(device, 2);
    support->supported = (unsigned)number("gpm", 0);
    return 0;
}
int nvmlGpmSampleAlloc(GpmSample **sample) { ENTER(NULL); *sample = calloc(1, sizeof **sample); return 0; }
int nvmlGpmSampleFree(GpmSample *sample) { ENTER(NULL); free(sample); return 0; }
int nvmlGpmSampleGet(Device *device, GpmSample *sample) { ENTER(device); *sample = (GpmSample){monotonic(), device->gpu, 0}; return 0; }
int nvmlGpmMigSampleGet(Device *device, unsigned instance, GpmSample *sample) {
    ENTER(device);
    if (device->mig >= 0 || instance < MIG_BASE) return 2;
    *sample = (GpmSample){monotonic(), device->gpu, (int)instance};
    return 0;
}
int nvmlGpmMetricsGet(GpmGet *get) {
    ENTER(NULL);
    if (get->version != 1) return 25;
    double span = get->second->at - get->first->at;
    if (span <= 0.1 || get->first->gpu != get->second->gpu || get->first->instance != get->second->instance) return 2;
    for (unsigned i = 0; i < get->count; i++) {
        GpmMetric *metric = &get->metrics[i];
        char key[64];
        snprintf(key, sizeof key, "fail.gpm.%u", metric->id);
        metric->code = (unsigned)number(key, 0);
        snprintf(key, sizeof key, "gpm.%u", metric->id);
        metric->value = of_gpu(key, get->first->gpu, metric->id == 2 ? 98.25 : metric->id == 10 ? 61.5 : 1);
        if (number("gpm.nan", 0)) metric->value = NAN;
    }
    return 0;
}
