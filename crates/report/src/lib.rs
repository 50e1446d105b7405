//! Reports: evidence and roofline to text, JSON, CSV, Markdown and a self-contained page.
//!
//! Pure: a document in, text out. To add a format: a file in `formats/`, and its line in [`FORMATS`].

#![forbid(unsafe_code)]

mod account;
mod answer;
mod assemble;
mod breakdown;
mod carried;
mod civil;
mod compare;
mod doctor;
mod document;
mod experiment;
mod facts;
mod figures;
mod forecast;
mod formats;
mod held;
mod link_account;
mod number;
mod read;
mod segments;
mod streamed;
mod svg;
mod table;

pub use account::{
    Account, Agreement, Asked as Dependency, Inside, Source, StationTime, Threads, station_ids,
};
pub use answer::{Latency, Limit};
pub use assemble::run_document;
pub use breakdown::{Breakdown, Portion};
pub use carried::{Carried, NodeWork, NodesCpu, NodesWork, SchedulersTime, SystemCalls};
pub use compare::{CompareDocument, ComparedFigure, ComparedRun};
pub use doctor::{
    Applied, Connection, DoctorDocument, Exchanges, Kernel, Port, ProbeCost, SampledProcess,
    Traffic, Vital, doctor_document,
};
pub use document::{
    Availability, Claim, ClimbDocument, Distribution, Effect, Gated, LinkPart, Load, Outage,
    Roofline, RunDocument, Scale, Scanned, SeriesPoint, Step, StudyDocument, StudyRow, UNEXPLAINED,
    Wire, series_of,
};
pub use experiment::{Experiment, Half, Modelled, Tried};
pub use forecast::{
    Asked, Between, Known, PredictDocument, PredictRow, Simulated, WasRun, WhatIfDocument,
};
pub use formats::{FORMATS, Format, Look};
pub use held::{
    BytesEach, Fit, ForecastLimit, Held, HeldClass, HeldDip, HeldHost, HeldLevel, HeldMoment,
    HeldPoint, HeldRoof, HeldTimes, MetLimit, NextLimit, PublishedUsers, Purpose, Seen, UserCost,
    Users, UsersClimb, UsersEffect, UsersSetting, UsersStudy,
};
pub use link_account::{End, LinkAccount, LinkCost, LinkRun, LinkUnit};
pub use read::{BadDocument, Document};
pub use streamed::Streamed;
