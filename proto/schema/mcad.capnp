# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The mcad wire protocol. docs/PROTOCOL.md describes the conversation; limits are in
# proto/src/wire/limits.rs. Every message travels in a frame of its own: 4 bytes "MCAD", the
# payload's length as a 32-bit little-endian number (a multiple of 8), then the payload, one
# Message in Cap'n Proto's standard unpacked stream serialisation.
#
# proto/src/generated/mcad_capnp.rs is made from this file; a test compares the two.

@0xaa357ae3523b0b4f;

const protocolVersion :UInt16 = 3;   # 1 knew one process only, 2 no system calls

# Feature bits of a session.
const featureMemory :UInt64 = 1;   # records carry memory accesses
const featureModules :UInt64 = 2;  # mapped files are reported
const featureReport :UInt64 = 4;   # the client wants Progress and ReportPart back

struct Message {
  union {
    hello @0 :Hello;
    helloReply @1 :HelloReply;
    batch @2 :Batch;
    end @3 :End;
    credit @4 :UInt32;           # so many more batches may be sent
    progress @5 :Progress;
    reportPart @6 :ReportPart;
    failure @7 :Text;            # the session cannot go on; nothing follows but the close
    stop @8 :Text;               # the receiver asks the sender to end soon, and says why
    statusRequest @9 :Void;
    status @10 :Status;
    shutdown @11 :Bool;          # true: do not wait for running sessions
    shutdownReply @12 :UInt32;   # sessions that were running
  }
}

enum Role {
  trace @0;    # sends batches
  control @1;  # sends statusRequest or shutdown
}

enum Arch {
  unknown @0;
  x8664 @1;
  aarch64 @2;
  riscv64 @3;
  riscv32 @4;
}

struct Hello {
  # Versions that the client speaks; the daemon picks one.
  minVersion @0 :UInt16;
  maxVersion @1 :UInt16;
  role @2 :Role;
  arch @3 :Arch;
  features @4 :UInt64;
  token @5 :Text;
  producer @6 :Text;            # for example "qemu 7.2.0, plugin API 1"
  command @7 :List(Text);       # the traced command, program first
  options @8 :List(Option);     # what to analyse, as the command line says it
}

struct Option {
  key @0 :Text;
  value @1 :Text;
}

enum Refusal {
  other @0;
  version @1;
  token @2;
  arch @3;
  busy @4;     # too many sessions or too little memory
  options @5;
  shuttingDown @6;
}

struct HelloReply {
  union {
    accepted :group {
      version @0 :UInt16;
      session @1 :UInt64;
      credit @2 :UInt32;        # batches that may be sent at once
      maxFrame @3 :UInt32;      # longest payload that the daemon reads, in bytes
      maxWords @4 :UInt32;      # most record words in a batch
      features @5 :UInt64;      # those of Hello that hold
    }
    refused :group {
      reason @6 :Refusal;
      message @7 :Text;
      minVersion @8 :UInt16;    # what the daemon speaks
      maxVersion @9 :UInt16;
    }
  }
}

struct Batch {
  sequence @0 :UInt64;          # from 0, without gaps
  events @1 :List(Event);       # in order
}

struct Event {
  union {
    block :group {
      id @0 :UInt32;
      instructions @1 :UInt16;
      address @2 :UInt64;
      code @3 :Data;
    }
    module :group {
      start @4 :UInt64;
      end @5 :UInt64;
      fileOffset @6 :UInt64;
      path @7 :Text;
    }
    region :group {
      start @8 :UInt64;
      end @9 :UInt64;
      name @10 :Text;
    }
    streamStart @11 :UInt32;
    records :group {
      stream @12 :UInt32;
      words @13 :Data;          # 8-byte little-endian words, see proto/src/word.rs
    }
    streamEnd @14 :UInt32;
    lost :group {
      count @15 :UInt64;        # 0: unknown
      reason @16 :Text;
    }
    notice @17 :Text;
    process :group {             # from version 2 on
      id @18 :UInt32;            # 0 is the first process
      union {
        forked @19 :UInt32;      # as a copy of this one
        entered @20 :Void;       # blocks, modules, starts of streams that follow are its
        replaced @21 :List(Text);  # by this command, program first
        ended @22 :End;
      }
    }
  }
}

struct End {
  union {
    exited @0 :Int32;
    signaled @1 :Int32;
    exec @2 :Int32;
    producerDied @3 :Text;
    truncated @4 :Text;
    complete @5 :Void;
  }
  batches @6 :UInt64;           # how many batches were sent
}

struct Progress {
  instructions @0 :UInt64;      # simulated so far
  cycles @1 :UInt64;            # on the first CPU model
  records @2 :UInt64;           # words received so far
}

struct ReportPart {
  total @0 :UInt64;             # bytes of the whole report (JSON)
  offset @1 :UInt64;            # where this part belongs; parts come in order, without gaps
  data @2 :Data;
}

struct Status {
  version @0 :Text;
  uptimeSeconds @1 :UInt64;
  maxSessions @2 :UInt32;
  finishedSessions @3 :UInt64;
  failedSessions @4 :UInt64;
  residentBytes @5 :UInt64;
  sessions @6 :List(SessionStatus);
}

struct SessionStatus {
  id @0 :UInt64;
  peer @1 :Text;
  command @2 :Text;
  state @3 :Text;
  seconds @4 :UInt64;
  instructions @5 :UInt64;
  records @6 :UInt64;
  queuedBytes @7 :UInt64;
}

# Trace files (docs/TRACE-FORMAT.md): what stands at the start of the file and at its end. They
# use the schema for what may grow; the records between have a coding of their own.

struct TraceHeader {
  arch @0 :Arch;
  features @1 :UInt64;
  producer @2 :Text;
  command @3 :List(Text);
  tool @4 :Text;                # program and version that wrote the file
}

struct TraceIndex {
  chunks @0 :List(ChunkInfo);
  words @1 :UInt64;
  blockExecutions @2 :UInt64;
  accesses @3 :UInt64;
  instructions @4 :UInt64;      # executed, as the blocks' definitions say
  blocks @5 :UInt32;
  streams @6 :UInt32;
  lost @7 :UInt64;
  end @8 :End;
}

struct ChunkInfo {
  offset @0 :UInt64;            # in the file
  length @1 :UInt32;            # in the file, with the chunk's header
  firstWord @2 :UInt64;
  words @3 :UInt32;
}
